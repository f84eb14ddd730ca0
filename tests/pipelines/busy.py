"""A generated busy group: two clusters, two topics, fast and slow members, one that is stuck, one that dies, a job that
leases, and a few poisoned records."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from typing import Any

from mesh.pipelines.audit.accounts import JournalEvent
from mesh.pipelines.audit.records import Place

BEGIN = 1_790_000_000_000
WORK = {"pay-1": 6, "pay-2": 7, "pay-3": 9, "billing-<b>": 11, "pay-5": 8, "pay-6": 14, "slow-7": 160, "stuck-8": 10}
"""Milliseconds of a member's work for a record."""
STUCK, DIES, LEASES = "stuck-8", "pay-6", "nightly"
PLACES: list[Place] = [
    *(("eu", "orders", partition) for partition in range(4)),
    *(("us", "orders", partition) for partition in range(4)),
    *(("eu", "payments", partition) for partition in range(2)),
]


def rows(seconds: int, seed: int = 1) -> Iterator[tuple[Place, tuple[Any, ...]]]:
    """The rows of a journal, as Spark has them."""
    for number, (place, each) in enumerate(_events(seconds, random.Random(seed))):
        what = each.event, each.time, each.first, each.last, each.member, each.client_id, each.host, each.lease
        yield place, (each.time, "run", 0, number, *what, each.deliveries, each.produced)


def _events(seconds: int, chance: random.Random) -> Iterator[tuple[Place, JournalEvent]]:
    end = BEGIN + seconds * 1_000
    free = [(BEGIN + index * 40, name) for index, name in enumerate(WORK)]
    heapq.heapify(free)
    next_offset = dict.fromkeys(PLACES, 0)
    again: list[tuple[Place, int, int, int]] = []
    found: list[tuple[int, Place, JournalEvent]] = [
        (BEGIN, place, JournalEvent("known", BEGIN, 0, -1)) for place in PLACES
    ]

    def told(place: Place, event: str, time: int, first: int, last: int, name: str, **more: Any) -> None:
        host = f"10.0.0.{len(name) % 7 + 2}"
        found.append((time, place, JournalEvent(event, time, first, last, name, name, host, **more)))

    while free and free[0][0] < end:
        now, name = heapq.heappop(free)
        rush = 1 + 2.5 * (0.45 < (now - BEGIN) / (end - BEGIN) < 0.6)
        produced = now - int(chance.lognormvariate(2.3, 0.7) * rush)
        if again and chance.random() < 0.5:
            place, first, last, deliveries = again.pop()
            told(place, "redelivered", now, first, last, name, deliveries=deliveries, produced=produced)
        else:
            place = chance.choice(PLACES)
            first = next_offset[place]
            last = first + max(int(chance.lognormvariate(3.2, 0.6) / (4 if name == "slow-7" else 1)), 1) - 1
            next_offset[place], deliveries = last + 1, 1
            told(place, "delivered", now, first, last, name, deliveries=1, produced=produced)
        held = int((last - first + 1) * WORK[name] * chance.lognormvariate(0, 0.35) * rush) + 3
        if name == STUCK and now > BEGIN + (end - BEGIN) * 0.7:
            continue
        if name == DIES and now > BEGIN + (end - BEGIN) * 0.5:
            told(place, "expired", now + 10_000, first, last, name, deliveries=1)
            again.append((place, first, last, deliveries + 1))
            continue
        if deliveries < 3 and chance.random() < (0.002 if deliveries == 1 else 0.4):
            told(place, "expired", now + held * 20, first, last, name, deliveries=deliveries)
            again.append((place, first, last, deliveries + 1))
        elif deliveries >= 3:
            told(place, "dead_lettered", now + held, first, first, name)
            told(place, "acknowledged", now + held, min(first + 1, last), last, name)
        else:
            told(place, "acknowledged", now + held, first, last, name)
        heapq.heappush(free, (now + held + 2, name))
    for number, time in enumerate(range(BEGIN + 5_000, end, 30_000)):
        place = PLACES[number % len(PLACES)]
        first = next_offset[place]
        next_offset[place] = first + 3_000
        told(place, "leased", time, first, first + 2_999, LEASES, lease=f"L{number}", deliveries=1)
        told(place, "acknowledged", time + 4_000, first, first + 2_999, LEASES, lease=f"L{number}")
    for _, place, each in sorted(found, key=lambda each: each[0]):
        if each.time <= end:
            yield place, each
