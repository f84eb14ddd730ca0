"""A journal, a table and logs of any size, with one loss, one duplicate and one false acknowledgement planted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mesh.pipelines.audit.audit import Evidence
from mesh.pipelines.audit.job import AuditJob
from mesh.pipelines.audit.journalled import Row
from mesh.pipelines.audit.kafka import LogOfTopic

CLUSTER, TOPIC = "eu", "orders"
PARTITIONS = 12
SPAN = 500
HOUR = 3_600_000
LOSS, DUPLICATE, FALSE, PASSED_OVER = (1, 1_234), (2, 12_345), (3, 1_501), (4, 1_599)
"""Partition and offset of each fault: acknowledged by a lease and not landed; landed twice; acknowledged by a member
that never got it; skipped by the group."""


def config_of(folder: Path) -> AuditJob:
    return AuditJob(
        virtual_cluster="v",
        group="g",
        topics={CLUSTER: (TOPIC,)},
        clusters={CLUSTER: {"bootstrap.servers": "127.0.0.1:1"}},
        journal={"cluster": CLUSTER, "topic": "journal"},  # type: ignore[arg-type]
        landed={"table": str(folder / "table")},  # type: ignore[arg-type]
        state=str(folder / "audit"),
        patience=0,
    )


def write_table(spark: Any, folder: Path, begin: int, end: int, planted: bool = True) -> None:
    """Writes offsets [begin, end) of every partition, as landings leave them: many files, offsets in runs. It leaves
    out the offsets that members acknowledge (every second span)."""
    rows = spark.range(0, (end - begin) * PARTITIONS, numPartitions=8).selectExpr(
        f"'{CLUSTER}' cluster",
        f"'{TOPIC}' topic",
        f"int(id div {end - begin}) partition",
        f"id % {end - begin} + {begin} offset",
    )
    rows = rows.where(f"(offset div {SPAN}) % 2 = 0")
    if planted:
        rows = rows.where(f"not (partition = {LOSS[0]} and offset = {LOSS[1]})")
        again = spark.range(1).selectExpr(
            f"'{CLUSTER}' cluster", f"'{TOPIC}' topic", f"{DUPLICATE[0]} partition", f"bigint({DUPLICATE[1]}) offset"
        )
        rows = rows.union(again)
    rows.write.mode("append").partitionBy("topic").parquet(str(folder / "table"))


def landed_rows(begin: int, end: int, planted: bool) -> Iterator[Row]:
    """The same rows as runs."""
    for partition in range(PARTITIONS):
        place = CLUSTER, TOPIC, partition
        for first in range(begin, end, 2 * SPAN):
            runs = [(first, first + SPAN - 1)]
            if planted and partition == LOSS[0] and first <= LOSS[1] < first + SPAN:
                runs = [(first, LOSS[1] - 1), (LOSS[1] + 1, first + SPAN - 1)]
            yield from ((place, "landed", run) for run in runs)
    if planted:
        yield (CLUSTER, TOPIC, DUPLICATE[0]), "landed", (DUPLICATE[1], DUPLICATE[1])


def events(begin: int, end: int, planted: bool = True) -> Iterator[Row]:
    """Every span is held and acknowledged, alternately by a lease and by a member; every tenth has two holders."""
    for partition in range(PARTITIONS):
        place = CLUSTER, TOPIC, partition
        number = 0

        def row(event: str, first: int, last: int, who: str = "", lease: str = "", place: Any = place) -> Row:
            nonlocal number
            number += 1
            return (
                place,
                "event",
                (number, "run", 0, number, event, number, first, last, who, who, "10.0.0.1", lease, 1),
            )

        if begin == 0:
            yield row("known", 0, -1)
        for first in range(begin, end, SPAN):
            last = min(first + SPAN, end) - 1
            turn = first // SPAN
            who, lease = ("job", f"L{turn}") if turn % 2 == 0 else (f"m-{turn % 7}", "")
            verb = "leased" if lease else "delivered"
            if turn % 10 == 1:
                yield row("delivered", first, last, "m-dead")
                yield row("expired", first, last, "m-dead")
                verb = "redelivered"
            parts = [(first, last)]
            for where, at in (FALSE, PASSED_OVER) if planted else ():
                if where == partition and first <= at <= last:
                    parts = [(a, b) for a, b in ((first, at - 1), (at + 1, last)) if a <= b]
            for part in parts:
                yield row(verb, *part, who, lease)
            if planted and partition == PASSED_OVER[0] and first <= PASSED_OVER[1] <= last:
                for part in parts:
                    yield row("acknowledged", *part, who, lease)
            else:
                yield row("acknowledged", first, last, who, lease)


def evidence_of(spark: Any, landed: Any, begin: int, end: int, planted: bool = True) -> Evidence:
    context = spark.sparkContext
    places = [(CLUSTER, TOPIC, partition) for partition in range(PARTITIONS)]
    exists = [
        (place, "exists", (first, min(first + 10_000, end) - 1, first // 100_000 * HOUR))
        for place in places
        for first in range(begin, end, 10_000)
    ]
    return Evidence(
        context.parallelize(list(events(begin, end, planted)), 4),
        context.parallelize(exists, 2),
        landed,
        {place: [(0, end - 1)] for place in places},
        {place: LogOfTopic(0, end) for place in places},
        [("run", "", begin // max(end - begin, 1), False, 0)],
    )
