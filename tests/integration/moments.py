"""The promises at one moment, to compare with later deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mesh.pool.state.slots import slot_of
from tests.integration.members import Member
from tests.integration.records import Delivery


@dataclass(frozen=True, slots=True)
class Moment:
    """The state at one moment. settled: ids of records whose commits had been answered. shown: how many deliveries of
    each member had been seen, and in which slots: a client may show records later that it already had, but it gets no
    new ones in these slots."""

    settled: frozenset[str]
    shown: dict[str, int]
    slots: dict[str, frozenset[int]]

    @classmethod
    def of(cls, members: Iterable[Member]) -> Moment:
        members = list(members)
        return cls(
            frozenset(delivery.id for member in members for delivery in member.settled),
            {member.name: len(member.deliveries) for member in members},
            {member.name: frozenset(slot_of(each.offset) for each in member.deliveries) for member in members},
        )

    def broken_by(self, members: Iterable[Member]) -> list[Delivery]:
        """Deliveries since then of records whose commit had been answered before."""
        return [
            delivery
            for member in members
            for delivery in member.deliveries[self.shown.get(member.name, 0) :]
            if delivery.id in self.settled and slot_of(delivery.offset) not in self.slots.get(member.name, frozenset())
        ]
