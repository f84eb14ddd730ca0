"""Partitions of recreated topics: looks up the start of each until it is known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from mesh.records.spans import UpstreamPartition
from mesh.upstream.librdkafka.positions.bounds import LogBounds

RETRY: Final = 1.0
"""Seconds between two requests. A new topic has no leaders at first."""


class RecreatedPartitions:
    """The recreated partitions whose start is unknown. It never blocks; everything runs on the consumer's thread."""

    def __init__(self, bounds: LogBounds) -> None:
        self._bounds = bounds
        self._waiting: set[UpstreamPartition] = set()
        self._is_asked = False
        self._ask_at = 0.0

    def add(self, sources: Iterable[UpstreamPartition]) -> None:
        self._waiting.update(sources)

    def keep_only(self, sources: Collection[UpstreamPartition]) -> None:
        """Drops all but these partitions: the others do not resume where they were read before."""
        self._waiting.intersection_update(sources)

    def drop(self, source: UpstreamPartition) -> None:
        """Drops a partition that has started again by itself."""
        self._waiting.discard(source)

    def find_starts(self, ours: Collection[UpstreamPartition], now: float) -> Mapping[UpstreamPartition, int]:
        """Returns the starts that became known, each once. ours: the partitions that are read now."""
        wanted = sorted(self._waiting.intersection(ours))
        if not self._is_asked and wanted and now >= self._ask_at:
            self._is_asked, self._ask_at = True, now + RETRY
            self._bounds.ask(wanted, (), now)
        answer = self._bounds.answer(now) if self._is_asked else None
        if answer is None:
            return {}
        self._is_asked = False
        found = {source: at for source, at in answer.begins.items() if isinstance(at, int) and source in wanted}
        self._waiting.difference_update(found)
        return found
