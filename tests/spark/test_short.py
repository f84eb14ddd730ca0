"""The landing job on a real Spark session, a real mesh and two real clusters, in its short form: the other files here
have the longer tests and the kills."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mesh.pipelines.landing import Landing, batches_of, into_delta, start
from tests.integration.bench import Bench
from tests.spark.session import finish
from tests.spark.test_source import places, stored_places

pytestmark = pytest.mark.timeout(900)


def landing_of(bench: Bench, folder: Path, **more: object) -> Landing:
    source = {"url": bench.mesh.admin_url, "virtual_cluster": "tested", "group": bench.group, "topics": [bench.topic]}
    paths = {"table": str(folder / "table"), "checkpoint": str(folder / "checkpoint")}
    return Landing.model_validate({"source": source, **paths, "max_records_per_batch": 400, **more})


@pytest.mark.smoke
def test_each_record_lands_once_and_each_batch_is_told_once(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    bench.feed(1_200)
    landing = landing_of(bench, tmp_path, tasks=2, one_file=True)
    query = finish(lambda: start(spark, landing, available_now=True))
    backlog = query.lastProgress["sources"][0]["latestOffset"]
    assert '"lag"' in backlog
    assert '"available"' in backlog
    assert batches_of(spark, landing).catch_up() >= 3
    bench.feed(200)
    finish(lambda: start(spark, landing, available_now=True))
    assert batches_of(spark, landing).catch_up() >= 1
    assert batches_of(spark, landing).catch_up() == 0

    landed = spark.read.parquet(landing.table).collect()
    assert places(landed) == Counter(stored_places(bench.stored()))
    told = spark.read.parquet(f"{landing.table}_batches").collect()
    assert_tells(told, landed)
    bench.until_all_committed()


def assert_tells(told: list[Any], landed: list[Any]) -> None:
    """Each row of the table of batches has the number of records that landed between its offsets; together they cover
    all."""
    covered: Counter[tuple[str, str, int, int]] = Counter()
    for row in told:
        between = [each for each in landed if partition_of(each) == partition_of(row)]
        offsets = [each["offset"] for each in between if row["first"] <= each["offset"] <= row["last"]]
        assert row["rows"] == len(offsets), f"{row}: {sorted(offsets)}"
        covered.update((*partition_of(row), offset) for offset in offsets)
    assert covered == Counter((*partition_of(row), row["offset"]) for row in landed)
    assert len({(row["batch"], *partition_of(row)) for row in told}) == len(told)
    assert len({row["lease"] for row in told}) == len({row["batch"] for row in told})


def partition_of(row: Any) -> tuple[str, str, int]:
    return row["cluster"], row["topic"], row["partition"]


@pytest.mark.long
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_landing_may_start_before_there_are_records(format: str, bench: Bench, spark: Any, tmp_path: Path) -> None:
    """Its first batch has no lease."""
    bench.start_mesh()
    landing = landing_of(bench, tmp_path, format=format)
    for fed in (0, 100):
        bench.feed(fed)
        for _ in range(2):
            finish(lambda: start(spark, landing, available_now=True))
    if format == "parquet":
        landed = spark.read.parquet(landing.table).collect()
    else:
        from deltalake import DeltaTable

        landed = DeltaTable(landing.table).to_pyarrow_table().to_pylist()
    assert places(landed) == Counter(stored_places(bench.stored()))


@pytest.mark.long
def test_what_fails_after_it_is_in_a_delta_table_is_not_there_twice(
    bench: Bench, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    import mesh.pipelines.landing as module

    bench.start_mesh()
    bench.feed(900)
    landing = landing_of(bench, tmp_path, format="delta")
    failed: list[int] = []

    def failing(session: Any, config: Landing) -> Any:
        land = into_delta(session, config)

        def once(frame: Any, batch: int) -> None:
            land(frame, batch)
            if batch == 1 and not failed:
                failed.append(batch)
                raise RuntimeError("the driver dies here")

        return once

    monkeypatch.setattr(module, "into_delta", failing)
    with pytest.raises(Exception, match="the driver dies here"):
        finish(lambda: start(spark, landing, available_now=True))
    assert failed == [1]
    finish(lambda: start(spark, landing, available_now=True))
    rows = DeltaTable(landing.table).to_pyarrow_table().to_pylist()
    assert places(rows) == Counter(stored_places(bench.stored()))
    assert_tells(spark.read.parquet(f"{landing.table}_batches").collect(), rows)
    bench.until_all_committed()
