"""Another process with our `process_id`: Kafka lets the newest member with a group.instance.id in, and fences the older
one (KIP-345). If that one joined again, the two would fence each other in turns, and nobody would get records for long.
So it stays out until nobody else holds the id."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from mesh.upstream.groups.descriptions import Undescribed
from mesh.wire.client.groups import GroupDescription

INTERVAL = 10.0
BLIND = 120.0
"""Seconds to stay out where the group may not be described."""


class Fence:
    """Asks every `INTERVAL` seconds who is in the group, and waits for nothing. describe: its answer fails with
    Undescribed."""

    def __init__(self, describe: Callable[[], Future[GroupDescription]], instance_id: str | None) -> None:
        self._describe = describe
        self._instance_id = instance_id
        self._answer: Future[GroupDescription] | None = None
        self._ask_at = 0.0
        self._since = 0.0

    def fenced(self, now: float) -> None:
        """It happened just now."""
        self._since, self._ask_at, self._answer = now, now + INTERVAL, None

    def is_open(self, now: float) -> bool:
        """Whether nobody holds our instance id any more, as far as can be known."""
        if self._answer is None:
            if now >= self._ask_at:
                self._ask_at = now + INTERVAL
                self._answer = self._describe()
            return False
        if not self._answer.done():
            return False
        answer, self._answer = self._answer, None
        try:
            members = answer.result().members
        except Undescribed:
            return now - self._since >= BLIND
        return all(member.instance_id != self._instance_id for member in members)
