"""The records that an audit finds in the files of a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="it comes with the extra: pip install 'kafka-mesh[deltalake]'")


def append(
    table: Path, batch: int, topic: str, offsets: Sequence[int], partitions: int = 2, cluster: str = "eu"
) -> None:
    """Appends as a landing does, partitioned by topic and day."""
    import pyarrow as pa

    from mesh.pipelines.delta import append_once
    from mesh.pipelines.landing import PARTITIONS

    count = len(offsets)
    rows = {
        "value": pa.array([b"value"] * count),
        "topic": pa.repeat(pa.scalar(topic), count),
        "partition": pa.array([number % partitions for number in range(count)], pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "cluster": pa.repeat(pa.scalar(cluster), count),
        "dt": pa.repeat(pa.scalar(datetime(2026, 1, 2, tzinfo=UTC).date()), count),
    }
    assert append_once(str(table), pa.table(rows), "kafka-mesh test", batch, str(batch), PARTITIONS, {})


@pytest.mark.parametrize("topic", ["orders", "orders.v1-eu_x"])
def test_its_records_as_runs_of_offsets_and_only_of_new_files(tmp_path: Path, topic: str) -> None:
    from mesh.pipelines.audit.landed import _rows_of_file, files_of

    table = tmp_path / "a table"
    append(table, 0, topic, [10, 20, 11, 21, 13, 22])
    first = files_of(None, str(table))
    found = [row for file in first for row in _rows_of_file(file)]
    assert found == [
        (("eu", topic, 0), "landed", (10, 11)),
        (("eu", topic, 0), "landed", (13, 13)),
        (("eu", topic, 1), "landed", (20, 22)),
    ]
    append(table, 1, topic, [14])
    (new,) = set(files_of(None, str(table))) - set(first)
    assert list(_rows_of_file(new)) == [(("eu", topic, 0), "landed", (14, 14))]


def test_files_as_spark_names_them(tmp_path: Path) -> None:
    from mesh.pipelines.audit.landed import _rows_of_file, files_of

    table = tmp_path / "a table"
    append(table, 0, "orders", [1])
    (file,) = files_of(None, str(table))
    named = "file:" + file.replace(" ", "%20")
    for each in (named, named.replace("file:/", "file:///")):
        assert list(_rows_of_file(each)) == [(("eu", "orders", 0), "landed", (1, 1))]
