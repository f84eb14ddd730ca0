"""How much of a batch, or of a run of them, one member is given at once."""

from __future__ import annotations

from mesh.pool.distribution.quarantine import Quarantine
from mesh.pool.distribution.window_limits import WindowLimits
from mesh.pool.state.member import Member
from mesh.pool.state.partition import NO_LIMIT
from mesh.pool.state.window import Available
from mesh.records.batch import is_compressed


class Shares:
    def __init__(self, window_limits: WindowLimits, quarantine: Quarantine) -> None:
        self._window_limits = window_limits
        self._quarantine = quarantine

    def room(self, member: Member) -> int:
        """How many offsets more it may begin."""
        return member.flow.cap - member.in_flight if self._window_limits.are_kept else NO_LIMIT

    def part(self, offsets: int) -> int:
        """How many of so many offsets are an equal part for each member."""
        return -(-offsets // max(len(self._window_limits.members), 1))

    def batches(self, available: Available, offsets: int) -> int:
        """How many batches of a run are about so many offsets, one at least."""
        return max(round(len(available.batch.marks) * offsets / len(available)), 1)

    def share(self, available: Available) -> int:
        """How many batches of a run are an equal part for each member."""
        return -(-len(available.batch.marks) // len(self._window_limits.members)) or 1

    def most(self, available: Available, member: Member) -> int:
        """How many offsets of a batch it may be given: of what is suspected half, so that the culprit is found."""
        if self._quarantine.is_suspected(available):
            return (len(available) + 1) // 2
        if not self._window_limits.are_kept or available.batch.marks or is_compressed(available.batch):
            return len(available)
        in_front = max(available.batch.base - available.batch.first, 0)  # without a record
        return in_front + member.flow.cap
