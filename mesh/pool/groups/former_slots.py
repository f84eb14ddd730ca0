"""The groups of slots whose members are gone.

A member of a group learns by its next heartbeat that it is unknown, and joins again. A groupless member sends no
heartbeats: it only fetches and commits, so after an outage its client continues at offsets of its former slot. That
slot tells the group, and no other consumer has offsets of it. docs/decisions/0110-former-slots-tell-the-group.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mesh.pool.common.ids import GroupId
from mesh.pool.state.member import Member
from mesh.pool.state.slots import Slot
from mesh.security.principals import Principal

MOST_REMEMBERED: Final = 10_000
"""The most slots that are remembered. A commit may name any slot, so their number needs a limit."""


@dataclass(slots=True, eq=False)
class FormerSlot:
    """A slot that a groupless consumer had. group: the group of that consumer. successor: the slot of the member that
    continues for it; None if there was none yet. A reference to that member would keep its records in memory."""

    group: GroupId
    successor: Slot | None = None


class FormerSlots:
    """The slots that groupless consumers had, by principal. The oldest ones are forgotten first."""

    def __init__(self) -> None:
        self._slots: dict[tuple[Slot, Principal], FormerSlot] = {}

    def note(self, slot: Slot, principal: Principal, group: GroupId, successor: Slot | None = None) -> None:
        """Notes that a consumer of this principal had the slot in this group. successor: as in `FormerSlot`, if it has
        changed."""
        former = self._slots.pop((slot, principal), None)
        if former is None or former.group != group:
            former = FormerSlot(group)
        former.successor = former.successor if successor is None else successor
        self._slots[slot, principal] = former
        if len(self._slots) > MOST_REMEMBERED:
            del self._slots[next(iter(self._slots))]

    def note_end(self, member: Member) -> None:
        """Notes that a groupless member is gone."""
        for slot in member.slots:
            self.note(slot, member.client.principal, member.group)

    def of(self, slots: Iterable[Slot], principal: Principal) -> list[FormerSlot]:
        """Returns those of these different slots that consumers of this principal had."""
        found = (self._slots.get((slot, principal)) for slot in slots)
        return [former for former in found if former is not None]
