"""The report job: turns a pool's journal into tables and a page. They show how late and how evenly records were
delivered, and which members are slow or stuck.

Run it by `kafka-mesh pipeline report FILE`, or by `spark-submit report.py FILE` where kafka-mesh[spark] is installed;
the file is that of the audit. See docs/report.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mesh.pipelines.audit.job import AuditJob, load
from mesh.pipelines.audit.journalled import events_of, journal_rows
from mesh.pipelines.audit.kafka import offsets_at
from mesh.pipelines.audit.records import Holes, Memory, Place
from mesh.pipelines.report.figures import Figures, Key, MemberInfo, TallyOfTime, tallies, window_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = "report.html"
LOOK_BACK: Final = 600_000
"""Milliseconds of the journal to read before the wanted period, to know which member held which records at its
start."""
_TIME, _MEMBER = 5, 8
"""Indexes in the row of an event."""


@dataclass(frozen=True, slots=True)
class FinishedReport:
    """A finished report. page: the file for people; its tables are beside it."""

    figures: Figures
    page: Path

    def lines(self) -> Iterator[str]:
        """Yields a summary as lines for people."""
        from mesh.pipelines.report.delays import quantile
        from mesh.pipelines.report.wording import duration, percent

        figures = self.figures
        counts = figures.total.counts
        yield f"report: {figures.total.given:,} delivered, {counts['acknowledged']:,} acknowledged"
        held = [duration(quantile(figures.total.held, share)) for share in (500, 990, 999)]
        yield f"delivery to acknowledgement: p50 {held[0]}, p99 {held[1]}, p99.9 {held[2]}"
        yield (
            f"redelivered {percent(figures.total.rate('redelivered'))}, "
            f"dead letters {percent(figures.total.rate('dead_lettered'))}"
        )
        yield from (f"{each.standing}: {each.shown}" for each in figures.members if each.standing)
        yield f"page: {self.page}"


def report(spark: SparkSession, config: AuditJob, now: int | None = None) -> FinishedReport:
    """Reads the journal, and writes the tables and the page. now: in ms since the epoch, if not the clock's. Raises
    Unreadable."""
    until = now if now is not None else int(time.time() * 1000)
    since, begin = {}, 0
    if config.report.last is not None:
        begin = until - int(config.report.last * 1000)
        journal = config.journal
        since = offsets_at(config.clusters[journal.cluster], journal.topic, begin - LOOK_BACK)
    rows, _ = journal_rows(spark.sparkContext, config, since)
    rows = rows.cache()
    pages = [row[2] for row in rows.filter(lambda row: row[1] == "page").collect()]
    events = rows.filter(lambda row: row[1] == "event").map(lambda row: (row[0], row[2]))
    figures = figures_of(config, events, Memory().holes(pages), begin, until)
    return write(config, figures)


def figures_of(config: AuditJob, events: Any, holes: Holes, begin: int, until: int) -> Figures:
    """Returns the figures of a report. events: an RDD of places and rows of the journal. begin: the start of the
    counted time, in ms since the epoch."""
    times = events.map(lambda row: (row[1][_TIME], row[1][_TIME])).filter(lambda each: each[0] >= begin)
    first, last = times.fold((1 << 62, 0), lambda one, other: (min(one[0], other[0]), max(one[1], other[1])))
    first = min(first, last)
    until = max(until, last)
    wanted = config.report.window
    window = int(wanted * 1000) if wanted is not None else window_of(first, last)
    window = max(window, 1)

    def count(entry: tuple[Place, Iterable[tuple[Any, ...]]]) -> Iterator[tuple[Key, TallyOfTime]]:
        return tallies(entry[0], events_of(entry[1]), first, last, until, window)

    cube = events.groupByKey().flatMap(count).reduceByKey(lambda one, other: one.add(other)).collect()
    member_infos = events.map(lambda row: (row[1][_MEMBER], _member_info(row[1]))).reduceByKey(_better).collect()
    return Figures(
        config.virtual_cluster,
        config.group,
        first,
        last,
        until,
        window,
        int(config.report.stuck * 1000),
        dict(cube),
        dict(member_infos),
        holes,
    )


def _member_info(row: Sequence[Any]) -> MemberInfo:
    return MemberInfo(row[9], row[10], bool(row[11]))


def _better(one: MemberInfo, other: MemberInfo) -> MemberInfo:
    """Combines two descriptions of a member. The event of a dead letter has the member's name and nothing else of
    it."""
    return MemberInfo(one.client_id or other.client_id, one.host or other.host, one.is_lease or other.is_lease)


def write(config: AuditJob, figures: Figures) -> FinishedReport:
    from mesh.pipelines.audit.tables import write_rows
    from mesh.pipelines.report.page import page

    folder = config.report_folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in figures.tables().items():
        write_rows(folder / f"{name}.parquet", rows)
    partial = folder / f"{PAGE}.partial"
    partial.write_text(page(figures), encoding="utf-8")
    partial.rename(folder / PAGE)
    return FinishedReport(figures, folder / PAGE)


def run(config: AuditJob) -> FinishedReport:
    """Runs a report in the session of spark-submit, or in a local one on all cores."""
    from mesh.pipelines.spark import session

    spark = session("kafka-mesh report")
    try:
        return report(spark, config)
    finally:
        spark.stop()


if __name__ == "__main__":
    import sys

    print(*run(load(Path(sys.argv[1]))).lines(), sep="\n")
