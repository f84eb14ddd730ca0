"""The two lanes of a broker, and how they divide its partitions."""

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
"""The number of partitions that fill an answer of each lane."""
PATIENCE: Final = 0.1
"""Seconds for which the parking lane waits for the other lane's answer. The other connection may hang."""


@dataclass(slots=True, eq=False)
class Lane:
    """A lane: one connection to a broker, and its request in flight, if there is one.

    parks: whether its requests may wait at the broker for long.
    is_asking: whether a request is in flight.
    expects_records: whether that request asks for partitions whose logs hold more.
    is_short_wait: whether the broker answers that request soon.
    must_yield: whether the lane must leave all partitions to the other lane.
    waits_until: the time until which the lane waits for the other one to yield.
    """

    link: BrokerLink
    parks: bool
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    is_asking: bool = False
    expects_records: bool = False
    is_short_wait: bool = False
    must_yield: bool = False
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

    def decide_to_wait(self, now: float) -> bool:
        """Returns whether this lane must send no request now. The parking lane takes over the partitions of the other
        lane's request if their logs hold no more. It waits up to `PATIENCE` seconds for the answer to that request."""
        if self.must_yield:
            self.must_yield = False
            return True
        if self.parks and self.other.is_asking and not self.other.expects_records:
            if not self.other.must_yield:
                self.other.must_yield, self.waits_until = True, now + PATIENCE
            self.other.must_yield = now < self.waits_until
            return self.other.must_yield
        return False

    def select(self, wanted: Sequence[Reading]) -> Sequence[Reading]:
        """Returns the partitions of these that this lane asks for. If the logs of many hold more, it leaves half of
        those to the other lane, provided that the other lane is free for them at once or soon."""
        behind = [each for each in wanted if each.is_behind]
        if len(behind) < MANY or (
            self.other.is_asking and (self.other.expects_records or not self.other.is_short_wait)
        ):
            return wanted
        left = set(behind[1::2])
        self.other.woken.set()
        return [each for each in wanted if each not in left]

    def request_sent(self, asked: Collection[Reading]) -> int:
        """Notes that a request is sent. Returns the milliseconds for which the broker may wait for records."""
        self.is_asking, self.expects_records = True, any(each.is_behind for each in asked)
        # If the other lane expects records, this lane should soon be free to take over half of its partitions.
        self.is_short_wait = not self.parks or self.other.expects_records
        return SOON_MS if self.is_short_wait else PARKED_MS

    def request_ended(self) -> None:
        """Notes that the request has ended."""
        self.is_asking = self.expects_records = self.is_short_wait = False
        if self.must_yield:
            self.other.woken.set()

    def closed(self) -> None:
        """Notes that the lane sends no more requests."""
        self.request_ended()
        self.must_yield = False
