"""A Delta table has a batch once, however often it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesh.pipelines.delta import OtherBatch, append_once, last_batch

pytest.importorskip("deltalake", reason="it comes with the extra: pip install 'kafka-mesh[deltalake]'")


def rows(*numbers: int, topic: str = "orders") -> Any:
    import pyarrow as pa

    return pa.table({"number": list(numbers), "topic": [topic] * len(numbers)})


def numbers(table: Path) -> list[int]:
    from deltalake import DeltaTable

    return sorted(DeltaTable(table).to_pyarrow_table()["number"].to_pylist())


def append(table: Path, content: Any, batch: int, app: str = "job", lease: str | None = None) -> bool:
    """Appends a batch, by default with the lease of its number."""
    return append_once(str(table), content, app, batch, lease or f"lease {batch}", ("topic",), {})


def test_what_was_not_committed_by_spark_comes_again_and_is_passed_over(tmp_path: Path) -> None:
    table = tmp_path / "table"
    assert append(table, rows(1, 2), 0)
    assert not append(table, rows(1, 2), 0)
    assert append(table, rows(3), 1)
    assert not append(table, rows(3), 1)
    assert numbers(table) == [1, 2, 3]


def test_a_batch_before_the_last_one_is_refused(tmp_path: Path) -> None:
    """An older copy of the checkpoint counts on: other records, which would be acknowledged and never land."""
    table = tmp_path / "table"
    assert append(table, rows(1), 0)
    assert append(table, rows(2), 1)
    with pytest.raises(OtherBatch, match="batch 0 of job comes after batch 1"):
        append(table, rows(1), 0)
    assert numbers(table) == [1, 2]


def test_the_last_batch_with_another_lease_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table"
    assert append(table, rows(1), 0)
    assert append(table, rows(2), 1)
    with pytest.raises(OtherBatch, match="other records in batch 1 of job"):
        append(table, rows(3), 1, lease="another")
    assert numbers(table) == [1, 2]
    last = last_batch(str(table), "job", {})
    assert last is not None
    assert (last.number, last.is_of("lease 1"), last.is_of("lease 0")) == (1, True, False)


def test_tables_of_earlier_releases_have_no_leases(tmp_path: Path) -> None:
    """Also one that an earlier release has written since."""
    from deltalake import CommitProperties, Transaction, write_deltalake

    table = tmp_path / "table"
    assert last_batch(str(table), "job", {}) is None
    for batch in (0, 2):
        properties = CommitProperties(app_transactions=[Transaction("job", batch)])
        write_deltalake(str(table), rows(batch), mode="append", partition_by=["topic"], commit_properties=properties)
        assert not append(table, rows(batch), batch, lease="any")
        assert append(table, rows(batch + 1), batch + 1)
        with pytest.raises(OtherBatch):
            append(table, rows(batch + 1), batch + 1, lease="another")
    assert last_batch(str(table), "another job", {}) is None
    assert numbers(table) == [0, 1, 2, 3]


def test_another_checkpoint_counts_from_0_again(tmp_path: Path) -> None:
    table = tmp_path / "table"
    assert append(table, rows(1), 0)
    assert append(table, rows(2), 0, app="another")
    assert numbers(table) == [1, 2]


def test_it_is_partitioned(tmp_path: Path) -> None:
    table = tmp_path / "table"
    append(table, rows(1, topic="a"), 0)
    append(table, rows(2, topic="b"), 1)
    assert {each.name for each in table.iterdir() if "=" in each.name} == {"topic=a", "topic=b"}


def test_times_are_the_same_moments_whatever_the_session_s_zone(tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable

    table = tmp_path / "table"
    moments = pa.array([1_700_000_000_000_000], pa.timestamp("us", tz="Europe/Berlin"))
    content = rows(1).append_column("timestamp", moments)
    append(table, content, 0)
    found = DeltaTable(table).to_pyarrow_table()["timestamp"]
    assert found.type == pa.timestamp("us", tz="UTC")
    assert found.cast(pa.int64()).to_pylist() == [1_700_000_000_000_000]
