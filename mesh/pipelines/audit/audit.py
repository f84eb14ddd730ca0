"""The audit job: compares a pool's journal and its landed table with the upstream topics.

Run it by `kafka-mesh pipeline audit FILE`, or by `spark-submit audit.py FILE` where kafka-mesh[spark] is installed.
Each audit covers the records since the last one. See docs/audit.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mesh.pipelines.audit.accounts import Account, AuditRules, AuditState, Found, account
from mesh.pipelines.audit.intervals import union
from mesh.pipelines.audit.job import AuditJob, load
from mesh.pipelines.audit.journalled import Row, events_of, journal_rows, spread
from mesh.pipelines.audit.kafka import LogOfTopic, Stretch, claims, compacted, logs, read_runs
from mesh.pipelines.audit.records import AuditVerdict, Memory, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of an audit. events, exists, landed: RDDs of rows. claimed, logs: by partition. pages: the pages of
    the journal that were read, each as (run, process, sequence, is_last, dropped)."""

    events: Any
    exists: Any
    landed: Any
    claimed: Mapping[Place, Sequence[tuple[int, int]]]
    logs: Mapping[Place, LogOfTopic]
    pages: Sequence[tuple[str, str, int, bool, int]] = ()


def audit(spark: SparkSession, config: AuditJob, evidence: Evidence, memory: Memory) -> AuditVerdict:
    """Compares everything in one pass over the new data. Returns the verdict, which includes the memory for the next
    audit."""
    holes = memory.holes(evidence.pages)
    rules = AuditRules(
        lands=config.landed is not None,
        leases_only=config.landed is None or config.landed.by == "leases",
        is_whole=not holes.any,
    )
    known = spark.sparkContext.broadcast((memory.states, dict(evidence.claimed), dict(evidence.logs), rules))
    rows = spark.sparkContext.union([evidence.events, evidence.exists, evidence.landed])
    places = set(memory.states) | set(evidence.logs)
    present = spark.sparkContext.parallelize([(place, "", ()) for place in sorted(places)], 1)
    grouped = rows.union(present).map(lambda row: (row[0], row[1:])).groupByKey(_tasks(spark))

    def settle(entry: tuple[Place, Iterable[tuple[str, tuple[Any, ...]]]]) -> tuple[Place, Account]:
        states, claimed, ends, rules = known.value
        place, about = entry
        return place, account(
            states.get(place, AuditState()), _found(about, claimed.get(place, ()), ends.get(place)), rules
        )

    accounts: dict[Place, Account] = dict(grouped.map(settle).collect())
    return AuditVerdict.of(accounts, holes, memory)


def _found(
    about: Iterable[tuple[str, tuple[Any, ...]]], claimed: Sequence[tuple[int, int]], log: LogOfTopic | None
) -> Found:
    events: list[tuple[Any, ...]] = []
    exists: list[tuple[int, int, int]] = []
    landed: list[tuple[int, int]] = []
    still: list[tuple[int, int]] = []
    for kind, what in about:
        match kind:
            case "event":
                events.append(what)
            case "exists":
                exists.append(what)
            case "still":
                still.append(what[:2])
            case "landed":
                landed.append(what)
    log = log or LogOfTopic(0, 0)
    about_log = (log.is_compacted, union(still))
    return Found(events_of(events), sorted(exists), log.start, log.end, claimed, landed, *about_log)


def _tasks(spark: SparkSession) -> int:
    return max(int(spark.sparkContext.defaultParallelism), 2)


# Sources of the evidence


def gather(spark: SparkSession, config: AuditJob, memory: Memory) -> Evidence:
    """Gathers the evidence in an order in which each source has at least the records that earlier ones claim: the
    group's commits, the journal, which is written within a moment of them, the landed table, and the logs."""
    from mesh.pipelines.audit.landed import files_of, landed_rows

    context = spark.sparkContext
    claimed: dict[Place, Sequence[tuple[int, int]]] = {}
    for cluster, topics in config.topics.items():
        properties = config.clusters[cluster]
        partitions = logs(properties, topics)
        runs = claims(properties, config.upstream_group or config.group, cluster, partitions)
        claimed |= {(cluster, *key): each for key, each in runs.items()}
    time.sleep(config.patience)

    read, memory.journal = journal_rows(context, config, memory.journal)
    read = read.cache()
    pages = [row[2] for row in read.filter(lambda row: row[1] == "page").collect()]
    events = read.filter(lambda row: row[1] == "event")

    landed = context.emptyRDD()
    if config.landed is not None:
        new = [file for file in files_of(spark, config.landed.table) if file not in memory.files]
        memory.files |= set(new)
        if new:
            landed = landed_rows(context, new)

    ends: dict[Place, LogOfTopic] = {}
    for cluster, topics in config.topics.items():
        found, vanishing = logs(config.clusters[cluster], topics), compacted(config.clusters[cluster], topics)
        ends |= {(cluster, *key): replace(log, is_compacted=key[0] in vanishing) for key, log in found.items()}
    unseen = [Stretch(*place, max(log.start, _state(memory, place).seen), log.end) for place, log in ends.items()]
    exists = context.union(
        [_there(context, config, "exists", unseen), _there(context, config, "still", left_open(memory, ends))]
    )
    return Evidence(events, exists, landed, claimed, ends, pages)


def left_open(memory: Memory, logs: Mapping[Place, LogOfTopic]) -> Iterator[Stretch]:
    """Yields the stretches that earlier audits left open, and in which compaction may have removed records since."""
    for place, log in sorted(logs.items()):
        state = _state(memory, place)
        if log.is_compacted and state.open:
            yield Stretch(*place, max(log.start, state.open[0][0]), state.open[-1][1] + 1)


def _state(memory: Memory, place: Place) -> AuditState:
    return memory.states.get(place, AuditState())


def _there(context: Any, config: AuditJob, kind: str, stretches: Iterable[Stretch]) -> Any:
    """Returns an RDD of the runs of offsets that have a record."""
    clusters = {name: dict(each) for name, each in config.clusters.items()}
    window = config.window_ms

    def read(stretch: Stretch) -> Iterator[Row]:
        place = stretch.cluster, stretch.topic, stretch.partition
        for run in read_runs(clusters[stretch.cluster], stretch, window):
            yield place, kind, run

    return spread(context, [part for each in stretches for part in each.cut()], read)


def run(config: AuditJob) -> AuditVerdict:
    """Runs an audit in the session of spark-submit, or in a local one on all cores. The findings go to the folder
    `state`."""
    from mesh.pipelines.spark import session

    spark = session("kafka-mesh audit")
    try:
        return next_audit(spark, config)
    finally:
        spark.stop()


def next_audit(spark: SparkSession, config: AuditJob) -> AuditVerdict:
    memory = Memory.load(config.folder)
    verdict = audit(spark, config, gather(spark, config, memory), memory)
    verdict.save(config.folder)
    return verdict


if __name__ == "__main__":
    import sys
    from pathlib import Path

    found = run(load(Path(sys.argv[1])))
    print(*found.lines(), sep="\n")
    sys.exit(0 if found.holds else 1)
