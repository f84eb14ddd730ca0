"""Troubles of a running query: tasks that fail, batches done twice, leases that expire, a mesh that is away, topics
that grow, and all of these in one group."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.bench import Bench
from tests.integration.processes import eventually
from tests.spark.session import finish, land, landed_so_far
from tests.spark.test_source import Place, options_of, place_of, places, stored_places

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def table(spark: Any, folder: Path) -> Counter[Place]:
    if not any((folder / "table" / "_spark_metadata").glob("[0-9]*")):
        return Counter()  # Spark cannot read a table without files
    return places(spark.read.parquet(str(folder / "table")).collect())


@contextmanager
def running(writer: Any) -> Iterator[Any]:
    """A query without pauses; raises its failure at the end."""
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        yield query
        assert query.exception() is None
    finally:
        query.stop()


def until_landed(bench: Bench, spark: Any, folder: Path) -> None:
    """Returns when the table, or a member, has every stored record."""

    def is_there() -> bool:
        stored = bench.stored()
        delivered = {place_of(stored[each.id]) for each in bench.deliveries()}
        return stored_places(stored) == set(table(spark, folder)) | delivered

    eventually("everything has landed", is_there, timeout=240, interval=2)


def test_a_task_that_fails_reads_the_same_again(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    bench.feed(2_000)

    def fails_at_first(offset: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")
        return offset

    def start() -> Any:
        from pyspark.sql import functions
        from pyspark.sql.types import LongType

        checked = functions.udf(fails_at_first, LongType(), useArrow=False)  # which needs pandas
        stream = spark.readStream.format("kafka-mesh").options(**options_of(bench, minPartitions="4")).load()
        writer = stream.withColumn("offset", checked("offset")).writeStream.format("parquet")
        writer = writer.option("path", str(tmp_path / "table")).option("checkpointLocation", str(tmp_path / "cp"))
        return writer.trigger(availableNow=True).start()

    finish(start)
    assert table(spark, tmp_path) == Counter(stored_places(bench.stored()))
    bench.until_all_committed()


def test_two_actions_on_a_batch_see_the_same(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    bench.feed(2_000)
    seen: dict[int, tuple[Counter[Place], Counter[Place]]] = {}

    def look_twice(frame: Any, batch: int) -> None:
        seen[batch] = places(frame.collect()), places(frame.collect())

    def start() -> Any:
        options = options_of(bench, maxOffsetsPerTrigger="700")
        stream = spark.readStream.format("kafka-mesh").options(**options).load()
        writer = stream.writeStream.foreachBatch(look_twice).option("checkpointLocation", str(tmp_path / "cp"))
        return writer.trigger(availableNow=True).start()

    finish(start)
    assert len(seen) >= 3
    assert all(first == second for first, second in seen.values())
    assert sum((first for first, _ in seen.values()), Counter()) == Counter(stored_places(bench.stored()))


def test_a_lease_that_expired_and_went_to_others_is_said(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    bench.feed(600)
    options = options_of(bench, **{"mesh.lease.ttl.seconds": "60"})
    reading, is_stopped = threading.Event(), threading.Event()

    def hold(frame: Any, batch: int) -> None:
        frame.count()
        reading.set()
        is_stopped.wait(300)
        raise RuntimeError("the driver is gone")

    def query(**more: str) -> Any:
        stream = spark.readStream.format("kafka-mesh").options(**(options | more)).load()
        return stream.writeStream.option("checkpointLocation", str(tmp_path / "cp"))

    first = query().foreachBatch(hold).start()
    assert reading.wait(240)
    is_stopped.set()
    with pytest.raises(Exception, match="the driver is gone"):
        first.awaitTermination(120)
    member = bench.confluent("member", commit="sync")
    eventually("the lease expired, and the member has it all", lambda: len(member.deliveries) >= 600, timeout=240)
    with pytest.raises(Exception, match="it expired and others took"):
        finish(lambda: query().format("noop").trigger(availableNow=True).start())
    finish(lambda: query(failOnLeaseLoss="false").format("noop").trigger(availableNow=True).start())
    bench.until_all_committed()


@pytest.mark.deep
def test_the_mesh_is_away_for_a_minute(bench: Bench, spark: Any, tmp_path: Path) -> None:
    mesh = bench.start_mesh()
    bench.feed(600)
    with running(land(spark, options_of(bench, maxOffsetsPerTrigger="500"), tmp_path)):
        until_landed(bench, spark, tmp_path)
        mesh.kill()
        bench.feed(1_200)
        threading.Event().wait(60)
        mesh.restart()
        until_landed(bench, spark, tmp_path)
    assert table(spark, tmp_path) == Counter(stored_places(bench.stored()))
    bench.until_all_committed()


def test_a_topic_that_grows(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    bench.feed(600)
    with running(land(spark, options_of(bench), tmp_path)):
        until_landed(bench, spark, tmp_path)
        for cluster in bench.clusters:
            cluster.grow_topic(bench.topic, 5)

        def all_have_records() -> bool:
            bench.feed(60)  # the producer finds them later, too
            return {partition for _, _, partition, _ in stored_places(bench.stored())} == set(range(5))

        eventually("the new partitions have records", all_have_records, timeout=60)
        until_landed(bench, spark, tmp_path)
        bench.until_all_committed()  # a query acknowledges a batch when it asks for the next one
    found = table(spark, tmp_path)
    assert found == Counter(stored_places(bench.stored()))
    assert {partition for _, _, partition, _ in found} == set(range(5))


def test_two_queries_and_four_members_share(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    for number in range(4):
        bench.confluent(f"member-{number}", commit="sync").until_assigned()
    options = options_of(bench, maxOffsetsPerTrigger="500")
    folders = [tmp_path / "one", tmp_path / "other"]
    with running(land(spark, options, folders[0])) as one, running(land(spark, options, folders[1])) as other:

        def have_shares() -> bool:
            return min(landed_so_far(one), landed_so_far(other)) > 0 and all(each.deliveries for each in bench.members)

        with bench.feeding_throughout(rate=600):
            eventually("queries and members have their shares", have_shares, timeout=240, interval=0.5)
        bench.until_all_committed()
    landed = table(spark, folders[0]) + table(spark, folders[1])
    stored = bench.stored()
    delivered = Counter(place_of(stored[each.id]) for each in bench.deliveries())
    assert landed + delivered == Counter(stored_places(stored))
