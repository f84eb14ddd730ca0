"""The journal as rows of Spark: what audits and reports read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from mesh.pipelines.audit.accounts import Happened
from mesh.pipelines.audit.job import AuditJob
from mesh.pipelines.audit.kafka import LogOfTopic, Stretch, logs, read_pages
from mesh.pipelines.audit.records import Place

Row: TypeAlias = tuple[Place, str, tuple[Any, ...]]
"""Something about a partition: its place, `event`, `exists` or `landed`, and what. A `page` is about none."""
OFFSETS_OF_A_TASK = 2_000
"""Each of them is a page of many events."""


def journal_rows(context: Any, config: AuditJob, begin: Mapping[str, int]) -> tuple[Any, dict[str, int]]:
    """Events of the group, and all pages, as an RDD of rows; and where each partition of the journal ends. begin: the
    first offset that is wanted of them. Raises Unreadable."""
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
    """An RDD with a task for each."""
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


def happened(rows: Iterable[tuple[Any, ...]]) -> list[Happened]:
    """What rows say of a partition, in the order in which it was."""
    return [Happened(*each[4:]) for each in sorted(rows, key=lambda each: each[:4])]
