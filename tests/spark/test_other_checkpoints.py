"""A landing with another checkpoint than that of its table loses no batch: it is refused, or lands all the same."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mesh.pipelines.continuing import OtherCheckpoint
from mesh.pipelines.landing import Landing, batches_of, check_checkpoint, start
from tests.integration.bench import Bench
from tests.integration.processes import eventually
from tests.spark.session import finish
from tests.spark.test_short import landing_of
from tests.spark.test_source import places, stored_places

pytestmark = [pytest.mark.alone, pytest.mark.timeout(900)]


def with_short_leases(landing: Landing) -> Landing:
    source = landing.source.model_copy(update={"options": {"mesh.lease.ttl.seconds": "60"}})
    return landing.model_copy(update={"source": source})


def land_available(spark: Any, landing: Landing) -> None:
    finish(lambda: start(spark, landing, available_now=True))
    if landing.format == "parquet":
        batches_of(spark, landing).catch_up()


def rows_of(spark: Any, landing: Landing) -> list[Any]:
    if landing.format == "parquet":
        return list(spark.read.parquet(landing.table).collect())
    from deltalake import DeltaTable

    return list(DeltaTable(landing.table).to_pyarrow_table().to_pylist())


def holders(spark: Any, landing: Landing) -> Counter[str]:
    """The number of batches of each checkpoint, by the table of batches."""
    rows = spark.read.parquet(f"{landing.table}_batches").collect()
    return Counter(holder for _, holder in {(row["batch"], row["holder"]) for row in rows})


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_no_other_checkpoint_loses_a_batch(format: str, bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    landing = landing_of(bench, tmp_path, format=format)
    checkpoint, older, newest = (tmp_path / name for name in ("checkpoint", "older", "newest"))
    bench.feed(1_000)
    land_available(spark, landing)
    shutil.copytree(checkpoint, older)
    bench.feed(1_000)
    land_available(spark, landing)
    checkpoint.rename(newest)

    bench.feed(200)
    shutil.copytree(older, checkpoint)
    with pytest.raises(OtherCheckpoint, match="an older copy"):
        land_available(spark, landing)
    shutil.rmtree(checkpoint)
    if format == "parquet":
        with pytest.raises(OtherCheckpoint, match="this is a new checkpoint"):
            land_available(spark, landing)
        shutil.rmtree(landing.table)
        with pytest.raises(OtherCheckpoint, match="table_batches ends with batch"):
            land_available(spark, landing)


def test_the_newest_copy_continues_after_others_were_refused(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    landing = landing_of(bench, tmp_path)
    checkpoint, older, newest = (tmp_path / name for name in ("checkpoint", "older", "newest"))
    bench.feed(400)
    land_available(spark, landing)
    shutil.copytree(checkpoint, older)
    bench.feed(400)
    land_available(spark, landing)
    checkpoint.rename(newest)
    bench.feed(200)
    with pytest.raises(OtherCheckpoint):
        start(spark, landing, available_now=True)
    older.rename(checkpoint)
    with pytest.raises(OtherCheckpoint):
        start(spark, landing, available_now=True)
    shutil.rmtree(checkpoint)
    newest.rename(checkpoint)
    land_available(spark, landing)
    assert places(rows_of(spark, landing)) == Counter(stored_places(bench.stored()))
    assert len(holders(spark, landing)) == 1
    bench.until_all_committed()


def test_a_delta_table_continues_with_a_new_checkpoint(bench: Bench, spark: Any, tmp_path: Path) -> None:
    """Its last batch was not acknowledged yet, so it may come again. The table of batches has those of both."""
    bench.start_mesh()
    landing = with_short_leases(landing_of(bench, tmp_path, format="delta"))
    bench.feed(1_000)
    land_available(spark, landing)
    before = holders(spark, landing)
    shutil.rmtree(landing.checkpoint)
    bench.feed(1_000)
    land_available(spark, landing)
    landed = places(rows_of(spark, landing))
    assert set(landed) >= set(stored_places(bench.stored()))
    after = holders(spark, landing)
    assert len(after) == 2
    assert after.items() >= before.items(), "no batch of the first checkpoint is overwritten"


def test_a_copy_that_runs_beside_its_original_acknowledges_nothing_that_the_table_lacks(
    bench: Bench, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both pass the check at their start. Then the table has the next batch of one, and passes over that of the
    other."""
    bench.start_mesh()
    landing = with_short_leases(landing_of(bench, tmp_path))
    copy = landing.model_copy(update={"checkpoint": str(tmp_path / "copy")})
    bench.feed(400)
    land_available(spark, landing)
    shutil.copytree(landing.checkpoint, copy.checkpoint)
    check_checkpoint(spark, copy)
    bench.feed(400)
    land_available(spark, landing)
    bench.feed(1_000)
    with monkeypatch.context() as patch:
        patch.setattr("mesh.pipelines.landing.check_checkpoint", lambda *_: None)  # it has passed
        with pytest.raises(Exception, match="OtherCheckpoint"):
            start(spark, copy, available_now=True).awaitTermination()
    eventually("the table has everything", lambda: lands_all(spark, landing, bench), timeout=120)


def lands_all(spark: Any, landing: Landing, bench: Bench) -> bool:
    """Lands what is free, and returns whether the table has everything, each record once."""
    land_available(spark, landing)
    landed, stored = places(rows_of(spark, landing)), Counter(stored_places(bench.stored()))
    assert not landed - stored, "a record landed twice"
    return landed == stored
