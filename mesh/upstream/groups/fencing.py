"""Fencing by another process with our `process_id`. Kafka admits the newest member with a group.instance.id, and fences
the older one (KIP-345). If the fenced process joined again, the two would fence each other in turns, and neither would
get records for long. So it stays out until no other member has the id."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from mesh.upstream.groups.descriptions import DescriptionUnavailable
from mesh.wire.client.groups import GroupDescription

INTERVAL = 10.0
BLIND = 120.0
"""Seconds to stay out where the mesh may not describe the group."""


class Fence:
    """The wait of a fenced process. It describes the group every `INTERVAL` seconds, without blocking. describe:
    returns a future that fails with DescriptionUnavailable."""

    def __init__(self, describe: Callable[[], Future[GroupDescription]], instance_id: str | None) -> None:
        self._describe = describe
        self._instance_id = instance_id
        self._answer: Future[GroupDescription] | None = None
        self._ask_at = 0.0
        self._since = 0.0

    def fenced(self, now: float) -> None:
        """Notes that the process was fenced just now."""
        self._since, self._ask_at, self._answer = now, now + INTERVAL, None

    def check_may_rejoin(self, now: float) -> bool:
        """Returns whether no other member has our instance id, as far as the mesh can know."""
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
        except DescriptionUnavailable:
            return now - self._since >= BLIND
        return all(member.instance_id != self._instance_id for member in members)
