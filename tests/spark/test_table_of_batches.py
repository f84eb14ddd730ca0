"""The table of batches on a real Spark session: by checkpoint, and beside the files of earlier releases."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mesh.pipelines.batches import Batches
from mesh.pipelines.checkpoints import Checkpoint
from mesh.pipelines.hadoop import Folder

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]
LEGACY = "cluster string, topic string, partition int, first long, last long, rows long, lease string"


def planned(folder: Path, holder: str, count: int) -> None:
    """Writes a checkpoint with finished batches, each with a lease of its own."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch in range(count):
        place = {"cluster": "eu", "topic": "orders", "partition": 0, "first": batch, "last": batch}
        offset = {"version": 1, "holder": holder, "lease": f"{holder}-{batch}", "ranges": [place], "bootstrap": {}}
        (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
        (folder / "commits" / str(batch)).write_text("v1\n{}")


def table(spark: Any, folder: Path, holder: str) -> Batches:
    checkpoint = Checkpoint(*(Folder(spark, str(folder / holder / name)) for name in ("offsets", "commits")))
    return Batches(spark, str(folder / "batches"), checkpoint, None)


def leases(spark: Any, folder: Path) -> Counter[tuple[int, str]]:
    rows = spark.read.parquet(str(folder / "batches")).collect()
    return Counter((row["batch"], row["lease"]) for row in rows)


def test_each_checkpoint_has_its_own_batches(spark: Any, tmp_path: Path) -> None:
    assert table(spark, tmp_path, "nobody").last() == -1
    for holder, count in (("one", 3), ("two", 2)):
        planned(tmp_path / holder, holder, count)
        batches = table(spark, tmp_path, holder)
        assert batches.catch_up() == count
        assert batches.catch_up() == 0
        assert batches.last() == 2
        assert (batches.has(1, holder), batches.has(1, "nobody"), batches.has(9, holder)) == (True, False, False)
    named = [*((number, f"one-{number}") for number in range(3)), *((number, f"two-{number}") for number in range(2))]
    assert leases(spark, tmp_path) == Counter(named)
    of_two = Checkpoint(*(Folder(spark, str(tmp_path / "two" / name)) for name in ("offsets", "commits")))
    assert table(spark, tmp_path, "two").is_of(1, of_two.leased(1))
    assert not table(spark, tmp_path, "two").is_of(2, of_two.leased(1))


def test_what_was_interrupted_is_written_again(spark: Any, tmp_path: Path) -> None:
    planned(tmp_path / "one", "one", 2)
    assert table(spark, tmp_path, "one").catch_up() == 2
    for batch in (0, 1):
        for file in (tmp_path / "batches" / f"batch={batch}" / "one").iterdir():
            file.unlink()
        (tmp_path / "batches" / f"batch={batch}" / "one" / "_temporary").mkdir()
    assert table(spark, tmp_path, "one").catch_up() == 2
    assert leases(spark, tmp_path) == Counter([(0, "one-0"), (1, "one-1")])
    shutil.rmtree(tmp_path / "batches" / "batch=0" / "one")
    assert table(spark, tmp_path, "one").catch_up() == 1
    assert leases(spark, tmp_path) == Counter([(0, "one-0"), (1, "one-1")])


def test_tables_of_earlier_releases_go_on(spark: Any, tmp_path: Path) -> None:
    """They have `batch=N` without a holder: that of this checkpoint is not written twice, that of another one stays."""
    planned(tmp_path / "one", "one", 3)
    for batch, lease in ((0, "other-0"), (1, "one-1")):
        rows = [("eu", "orders", 0, batch, batch, 1, lease)]
        frame = spark.createDataFrame(rows, LEGACY).coalesce(1)
        frame.write.mode("overwrite").parquet(str(tmp_path / "batches" / f"batch={batch}"))
    assert table(spark, tmp_path, "one").catch_up() == 2
    assert leases(spark, tmp_path) == Counter([(0, "other-0"), (0, "one-0"), (1, "one-1"), (2, "one-2")])
    assert table(spark, tmp_path, "one").catch_up() == 0
    rows = spark.read.option("mergeSchema", True).parquet(str(tmp_path / "batches")).collect()
    assert Counter(row["holder"] for row in rows) == {None: 2, "one": 2}
