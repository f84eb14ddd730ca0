"""The journal as rows for Spark, as audits and reports read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from mesh.pipelines.audit.accounts import JournalEvent
from mesh.pipelines.audit.job import AuditJob
from mesh.pipelines.audit.kafka import LogOfTopic, Stretch, logs, read_pages
from mesh.pipelines.audit.records import Place

Row: TypeAlias = tuple[Place, str, tuple[Any, ...]]
"""A fact about a partition: the partition, a kind (`event`, `exists`, `still` or `landed`), and the details. A `page`
belongs to no partition."""
OFFSETS_OF_A_TASK = 2_000
"""Offsets of the journal in one task. Each is a page of many events."""


def journal_rows(context: Any, config: AuditJob, begin: Mapping[str, int]) -> tuple[Any, dict[str, int]]:
    """Returns the events of the group, and all pages, as an RDD of rows; and the end of each partition of the journal.
    begin: the first offset to read of each partition. Raises Unreadable."""
    journal = config.journal
    properties = dict(config.clusters[journal.cluster])
    found: Mapping[tuple[str, int], LogOfTopic] = logs(properties, [journal.topic])
    stretches = [
        each
        for (topic, partition), log in sorted(found.items())
        for each in Stretch(
            journal.cluster, topic, partition, max(log.start, begin.get(str(partition), 0)), log.end
        ).cut(OFFSETS_OF_A_TASK)
    ]
    wanted = config.virtual_cluster, config.group
    rows = spread(context, stretches, lambda stretch: _rows(properties, stretch, *wanted))
    return rows, {**begin, **{str(partition): log.end for (_, partition), log in found.items()}}


def spread(context: Any, stretches: Sequence[Stretch], read: Callable[[Stretch], Iterator[Row]]) -> Any:
    """Returns an RDD with one task for each stretch."""
    if not stretches:
        return context.emptyRDD()
    return context.parallelize(list(stretches), len(stretches)).flatMap(read)


def _rows(properties: Mapping[str, str], stretch: Stretch, virtual_cluster: str, group: str) -> Iterator[Row]:
    for page in read_pages(properties, stretch):
        yield ("", "", 0), "page", (page.run, page.process, page.sequence, page.is_last, page.dropped)
        for index, each in enumerate(page):
            if (each.virtual_cluster, each.group) == (virtual_cluster, group):
                order = each.time, page.run, page.sequence, index
                what = each.event, each.time, each.first, each.last, each.member, each.client_id, each.host, each.lease
                place = each.cluster, each.topic, each.partition
                yield place, "event", (*order, *what, each.deliveries, each.produced)


def events_of(rows: Iterable[tuple[Any, ...]]) -> list[JournalEvent]:
    """Returns the events of a partition in these rows, in order."""
    return [JournalEvent(*each[4:]) for each in sorted(rows, key=lambda each: each[:4])]
