"""What was promised at one moment, and whether it was kept afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mesh.pool.state.slots import slot_of
from tests.integration.members import Member
from tests.integration.records import Delivery


@dataclass(frozen=True, slots=True)
class Moment:
    """settled: ids of records whose commits had been answered. shown: how many deliveries of each member had been seen,
    and in which slots: what a client had in its hands already may be shown later, but nothing is sent in these."""

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
        """What was sent since then although its commit had been answered."""
        return [
            delivery
            for member in members
            for delivery in member.deliveries[self.shown.get(member.name, 0) :]
            if delivery.id in self.settled and slot_of(delivery.offset) not in self.slots.get(member.name, frozenset())
        ]
