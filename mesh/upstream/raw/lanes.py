"""The two lanes of a broker, and how they share its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.raw.reading import Reading

PARKED_MS: Final = 500
SOON_MS: Final = 10
LARGEST_ANSWER: Final = 8 << 20
LARGEST_PART: Final = 1 << 20
MANY: Final = 2 * LARGEST_ANSWER // LARGEST_PART
"""Partitions that fill an answer of each lane."""
PATIENCE: Final = 0.1
"""Seconds for which the lane that parks waits for the other one's answer: the other connection may hang."""


@dataclass(slots=True, eq=False)
class Lane:
    """One connection of a broker, and its request under way, if there is one.

    parks: whether its requests may wait at the broker for long. other: the broker's other lane.
    is_asking, brings, is_soon: it has a request under way; which asks for partitions whose logs hold more; which the
    broker answers soon. yields: it is to leave everything to the other one. waits_until: for the other one to do so.
    """

    link: BrokerLink
    parks: bool
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    is_asking: bool = False
    brings: bool = False
    is_soon: bool = False
    yields: bool = False
    waits_until: float = 0.0
    _other: Lane | None = None

    @classmethod
    def pair(cls, parking: BrokerLink, soon: BrokerLink) -> tuple[Lane, Lane]:
        one, other = cls(parking, True), cls(soon, False)
        one._other, other._other = other, one
        return one, other

    @property
    def other(self) -> Lane:
        assert self._other is not None
        return self._other

    def leaves_all(self, now: float) -> bool:
        """Whether it is to ask for nothing now: the lane that parks takes over the partitions that the other one asks
        for in vain, as soon as that has its answer."""
        if self.yields:
            self.yields = False
            return True
        if self.parks and self.other.is_asking and not self.other.brings:
            if not self.other.yields:
                self.other.yields, self.waits_until = True, now + PATIENCE
            self.other.yields = now < self.waits_until
            return self.other.yields
        return False

    def part_of(self, wanted: Sequence[Reading]) -> Sequence[Reading]:
        """The partitions of these that it asks for. Where the logs of many hold more, it leaves half of those to the
        other lane, if that is free for them at once or soon."""
        behind = [each for each in wanted if each.is_behind]
        if len(behind) < MANY or (self.other.is_asking and (self.other.brings or not self.other.is_soon)):
            return wanted
        left = set(behind[1::2])
        self.other.woken.set()
        return [each for each in wanted if each not in left]

    def asks(self, asked: Collection[Reading]) -> int:
        """It sends a request; for how many milliseconds the broker may wait for records."""
        self.is_asking, self.brings = True, any(each.is_behind for each in asked)
        # Beside a lane that brings records this one is to have its half of them soon.
        self.is_soon = not self.parks or self.other.brings
        return SOON_MS if self.is_soon else PARKED_MS

    def ended(self) -> None:
        """Its request has."""
        self.is_asking = self.brings = self.is_soon = False
        if self.yields:
            self.other.woken.set()

    def closed(self) -> None:
        """It asks for nothing any more."""
        self.ended()
        self.yields = False
