"""Finds assigned partitions that cannot be read although the group may work, since reading has its own connections. No
IO.

A failure that ends within `PATIENCE` seconds, such as a change of leaders, is not reported. Unwanted partitions are not
read, so nothing is known or reported of them.
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
    """Partitions that cannot be read, and the reason of the worst. report: called when some cannot be read, when the
    problem changes, and when all can be read again."""

    def __init__(self, report: Callable[[ReadingDown | ReadingUp], None]) -> None:
        self._report = report
        self._failing: dict[UpstreamPartition, _Failure] = {}
        self._reported: UpstreamProblem | None = None
        self.is_cluster_down = False
        """True if the cluster is reported as down anyway."""
        self.of_group: ReadingDown | None = None
        """The event that the group may not read some topics, from librdkafka's side."""

    def failed(self, source: UpstreamPartition, now: float, reason: str, problem: UpstreamProblem) -> None:
        failure = self._failing.get(source)
        if failure is None:
            self._failing[source] = _Failure(now, reason, problem)
        else:
            failure.reason, failure.problem = reason, problem

    def worked(self, source: UpstreamPartition) -> None:
        if self._failing:
            self._failing.pop(source, None)

    def check(self, now: float, wanted: Collection[UpstreamPartition]) -> None:
        """Checks for changes; call it about every second. wanted: the partitions that are read, or would be if
        possible."""
        for source in [source for source in self._failing if source not in wanted]:
            del self._failing[source]
        worst = self._worst(now)
        if worst is None:
            # Report the end only when no partition fails any more.
            if self._reported is not None and not self._failing:
                self._reported = None
                self._report(ReadingUp())
        elif self._reported is not worst.problem and not (self.is_cluster_down and self._reported is None):
            self._reported = worst.problem
            self._report(worst)

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
