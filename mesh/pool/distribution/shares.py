"""The share of a batch, or of a run, that one member gets at once."""

from __future__ import annotations

import math

from mesh.pool.distribution.fetch_queue import amount, with_more
from mesh.pool.distribution.limits import PoolLimits
from mesh.pool.distribution.quarantine import Quarantine
from mesh.pool.distribution.weights import Weights
from mesh.pool.distribution.window_limits import WindowLimits
from mesh.pool.state.member import Member
from mesh.pool.state.partition import NO_LIMIT
from mesh.pool.state.window import Available
from mesh.records.batch import is_compressed

LATELY = 0.5
"""Seconds after which deliveries to a member count half. It is short, so that deliveries before a member fell behind do
not matter."""
EVENED = 0.125
"""The part of a member's deficit that it gets in addition to its share of the next records."""
LATEST_RUNS = 16
"""The approximate number of runs over which recent deliveries are averaged."""


class Shares:
    """The share of new records that each member of a pool gets."""

    def __init__(
        self, window_limits: WindowLimits, quarantine: Quarantine, limits: PoolLimits, weights: Weights
    ) -> None:
        self._window_limits = window_limits
        self._limits = limits
        self._weights = weights
        self._quarantine = quarantine
        self._average = self._average_before = -math.inf
        """The average of recent deliveries (`Member.lately`) to the members served last: now, and when this step
        began."""

    def begin_step(self) -> None:
        """Begins a step. Deliveries to one member in a step do not enlarge the others' shares of the same records."""
        self._average_before = self._average

    def gave(self, member: Member, count: int, now: float) -> None:
        if len(self._window_limits.members) < 2:
            return
        member.lately = with_more(member.lately, count, now, LATELY)
        distance = member.lately - self._average
        self._average = member.lately if math.isinf(distance) else self._average + distance / LATEST_RUNS

    def share_for(self, member: Member, equal: int, now: float) -> int:
        """Returns the offsets for a member: an equal share, and up to another one if it got less than others lately.
        Weights replace this rule.

        A client that takes longer from an answer to its next Fetch has fewer turns, but does not process more slowly
        (docs/decisions/0094).
        """
        if self._weights.are_used:
            return self._weights.weighted_share(equal, member)
        if member.lately >= self._average_before:
            return equal
        behind = amount(self._average_before, now, LATELY) - amount(member.lately, now, LATELY)
        return equal + min(round(behind * EVENED), equal)

    def room(self, member: Member, now: float) -> int:
        """Returns the number of offsets that a member may still get."""
        room = member.flow.cap - member.in_flight if self._window_limits.are_kept else NO_LIMIT
        return min(room, self._limits.room(member, now)) if member.limiters else room

    def equal_share(self, offsets: int) -> int:
        """Returns an equal share of `offsets` offsets."""
        return -(-offsets // max(len(self._window_limits.members), 1))

    def batches_for(self, available: Available, offsets: int) -> int:
        """Returns the number of batches of a run that have about `offsets` offsets, at least one."""
        return max(round(len(available.batch.marks) * offsets / len(available)), 1)

    def share_in_batches(self, available: Available, member: Member) -> int:
        """Returns a member's share of a run, in batches."""
        equal = -(-len(available.batch.marks) // len(self._window_limits.members)) or 1
        return self._weights.weighted_share(equal, member) if self._weights.are_used else equal

    def most_offsets(self, available: Available, member: Member, now: float) -> int:
        """Returns the most offsets of a batch that a member may get. Of a suspected batch it gets half, to find the bad
        record."""
        if self._quarantine.is_suspected(available):
            return (len(available) + 1) // 2
        is_kept = self._window_limits.are_kept or member.limiters
        if not is_kept or available.batch.marks or is_compressed(available.batch):
            return len(available)
        in_front = max(available.batch.base - available.batch.first, 0)  # offsets without a record
        cap = member.flow.cap if self._window_limits.are_kept else NO_LIMIT
        return in_front + (min(cap, self._limits.room(member, now)) if member.limiters else cap)
