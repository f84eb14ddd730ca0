"""`format("kafka-mesh")` on a real Spark session, a real mesh and two real clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.bench import Bench
from tests.integration.processes import eventually
from tests.integration.records import Stored
from tests.spark.session import finish, land, landed_so_far

pytestmark = pytest.mark.long
Place = tuple[str, str, int, int]


def options_of(bench: Bench, **more: str) -> dict[str, str]:
    return {
        "mesh.admin.url": bench.mesh.admin_url,
        "mesh.virtual.cluster": "tested",
        "subscribe": bench.topic,
        "kafka.group.id": bench.group,
        **more,
    }


def places(rows: list[Any]) -> Counter[Place]:
    return Counter((row["cluster"], row["topic"], row["partition"], row["offset"]) for row in rows)


def place_of(stored: Stored) -> Place:
    return stored.cluster, stored.topic, stored.partition, stored.offset


def stored_places(stored: Mapping[str, Stored]) -> set[Place]:
    return set(map(place_of, stored.values()))


def run_once(writer: Any) -> Any:
    """Runs until all existing records are read."""
    return finish(lambda: writer.trigger(availableNow=True).start())


@pytest.mark.timeout(300)
def test_what_is_there_lands_once_with_its_true_place(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    bench.feed(3_000)
    options = options_of(bench, includeHeaders="true", minPartitions="8")
    query = run_once(land(spark, options, tmp_path))
    stored = bench.stored()
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert places(rows) == Counter(stored_places(stored))
    assert query.lastProgress["sources"][0]["numInputRows"] == 3_000
    by_place = {place_of(each): each.record for each in stored.values()}
    for row in rows:
        record = by_place[row["cluster"], row["topic"], row["partition"], row["offset"]]
        assert (bytes_of(row["key"]), bytes_of(row["value"])) == (record.key, record.value)
        headers = [(each["key"], bytes_of(each["value"])) for each in row["headers"] or []]
        assert headers == [(name, value) for name, value in record.headers or ()]

    bench.feed(600)
    run_once(land(spark, options, tmp_path))
    run_once(land(spark, options, tmp_path))
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert places(rows) == Counter(stored_places(bench.stored()))
    bench.until_all_committed()


def bytes_of(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


@pytest.mark.timeout(300)
def test_a_stream_and_members_share_the_records(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    member = bench.confluent("member", commit="sync")
    member.until_assigned()
    query = (
        land(spark, options_of(bench, maxOffsetsPerTrigger="500"), tmp_path).trigger(processingTime="0 seconds").start()
    )
    try:
        # Slowly, and until some has landed: a member that is alone takes everything that comes before Spark starts.
        with bench.feeding_throughout(rate=400):
            eventually("the stream got a share", lambda: landed_so_far(query) > 500, timeout=200, interval=0.5)
        bench.until_all_committed()
    finally:
        query.stop()
    landed = places(spark.read.parquet(str(tmp_path / "table")).collect())
    stored = bench.stored()
    delivered = Counter(place_of(stored[each.id]) for each in member.deliveries)
    assert set(landed) | set(delivered) == stored_places(stored)
    assert sum(landed.values()) + sum(delivered.values()) == len(stored)
    assert delivered, "the member got a share, too"


def test_a_wrong_option_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"option 'subscribe' is missing"):
        spark.readStream.format("kafka-mesh").option("mesh.admin.url", "http://127.0.0.1:1").option(
            "mesh.virtual.cluster", "x"
        ).load()


@pytest.mark.timeout(300)
def test_an_unknown_topic_is_named(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    options = options_of(bench, subscribe="nothing-of-that-name")
    query = land(spark, options, tmp_path).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="has no topic 'nothing-of-that-name'"):
        query.awaitTermination(60)


@pytest.mark.timeout(300)
def test_a_mesh_that_is_away_is_said_after_a_while(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    options = options_of(bench, **{"mesh.timeout.seconds": "2"})
    bench.mesh.kill()
    query = land(spark, options, tmp_path).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="did not do it in time"):
        query.awaitTermination(60)
