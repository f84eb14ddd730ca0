"""Which assigned partitions cannot be read, though the group may work: it has connections of its own. No IO.

What heals by itself within `PATIENCE` seconds, as a change of leaders does, is told to nobody. Partitions that nobody
wants at the moment are not tried, so nothing is known of them, and nothing is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from mesh.records.spans import UpstreamPartition
from mesh.upstream.engine import ReadingDown, ReadingUp
from mesh.upstream.problems import UpstreamProblem

PATIENCE: Final = 10.0


@dataclass(slots=True)
class _Failure:
    since: float
    reason: str
    problem: UpstreamProblem


class Health:
    """Partitions that cannot be read, and the reason of the worst. tell: told when some partitions cannot be read,
    again when it is another problem, and when it is over."""

    def __init__(self, tell: Callable[[ReadingDown | ReadingUp], None]) -> None:
        self._tell = tell
        self._failing: dict[UpstreamPartition, _Failure] = {}
        self._told: UpstreamProblem | None = None
        self.is_cluster_down = False
        """Whether that is told anyway."""
        self.of_group: ReadingDown | None = None
        """What librdkafka's side says may not be read."""

    def failed(self, source: UpstreamPartition, now: float, reason: str, problem: UpstreamProblem) -> None:
        failure = self._failing.get(source)
        if failure is None:
            self._failing[source] = _Failure(now, reason, problem)
        else:
            failure.reason, failure.problem = reason, problem

    def worked(self, source: UpstreamPartition) -> None:
        if self._failing:
            self._failing.pop(source, None)

    def look(self, now: float, wanted: Collection[UpstreamPartition]) -> None:
        """To be called every second or so. wanted: partitions that are asked for, or would be if they could."""
        for source in [source for source in self._failing if source not in wanted]:
            del self._failing[source]
        worst = self._worst(now)
        if worst is None:
            # Half healed is not healed: what was told is over when nothing fails any more.
            if self._told is not None and not self._failing:
                self._told = None
                self._tell(ReadingUp())
        elif self._told is not worst.problem and not (self.is_cluster_down and self._told is None):
            self._told = worst.problem
            self._tell(worst)

    def _worst(self, now: float) -> ReadingDown | None:
        lasting = {
            source: failure
            for source, failure in self._failing.items()
            if failure.problem is UpstreamProblem.NOT_AUTHORIZED or now - failure.since >= PATIENCE
        }
        if not lasting:
            return self.of_group
        source, worst = min(
            lasting.items(), key=lambda each: (each[1].problem is not UpstreamProblem.NOT_AUTHORIZED, each[0])
        )
        if self.of_group is not None and worst.problem is not UpstreamProblem.NOT_AUTHORIZED:
            return self.of_group
        others = f", and {len(lasting) - 1} partitions more" if len(lasting) > 1 else ""
        return ReadingDown(f"{source}: {worst.reason}{others}", worst.problem)
