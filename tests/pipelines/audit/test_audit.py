"""Audits of generated journals and tables find the planted faults, and nothing else. They use lists in place of Spark;
the long tests use Spark, real Parquet files and ten million records."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from mesh.pipelines.audit.audit import audit
from mesh.pipelines.audit.records import AuditVerdict, Memory
from tests.pipelines.generated import (
    DUPLICATE,
    FALSE,
    LOSS,
    PARTITIONS,
    PASSED_OVER,
    config_of,
    evidence_of,
    landed_rows,
    write_table,
)
from tests.pipelines.lists import Rows, Session

PLANTED = {("not_landed", *LOSS), ("landed_twice", *DUPLICATE), ("not_held", *FALSE), ("missing", *PASSED_OVER)}
EACH = 15_000


def found_by(verdict: AuditVerdict) -> set[tuple[str, int, int]]:
    for _, each in verdict.deviations:
        assert each.first == each.last
        assert each.story
    return {(each.kind, partition, each.first) for (_, _, partition), each in verdict.deviations}


def check_planted(verdict: AuditVerdict, each: int) -> None:
    assert found_by(verdict) == PLANTED
    assert not verdict.holds
    totals = verdict.totals
    assert totals["expected"] == each * PARTITIONS
    assert totals["delivered"] == each * PARTITIONS - 2
    assert totals["acknowledged"] == each * PARTITIONS - 1
    assert (totals["missing"], totals["twice"], verdict.waiting) == (1, 1, 0)
    assert totals["redelivered"] == each // 10 * PARTITIONS
    assert any("FAILS not landed: eu/orders-1 1234" in line for line in verdict.lines())


def check_clean(verdict: AuditVerdict, each: int) -> None:
    assert found_by(verdict) == set()
    assert verdict.holds
    assert verdict.totals["expected"] == each * PARTITIONS
    assert all(not account.state.open and not account.state.landed for account in verdict.accounts.values())


def test_what_was_planted_is_found_and_the_next_audit_looks_at_what_is_new(tmp_path: Path) -> None:
    memory = Memory()
    session: Any = Session()
    for number, planted in enumerate((True, False)):
        begin, end = number * EACH, (number + 1) * EACH
        landed = Rows(landed_rows(begin, end, planted))
        evidence = evidence_of(session, landed, begin, end, planted)
        verdict = audit(session, config_of(tmp_path), evidence, memory)
        (check_planted if planted else check_clean)(verdict, EACH)
        memory = verdict.memory
        memory.save(tmp_path)
        assert Memory.load(tmp_path) == memory


def of_spark(spark: Any, folder: Path, begin: int, end: int, planted: bool = True) -> AuditVerdict:
    from mesh.pipelines.audit import landed as table

    config = config_of(folder)
    memory = Memory.load(config.folder)
    new = [file for file in table.files_of(spark, str(folder / "table")) if file not in memory.files]
    memory.files |= set(new)
    landed = table.landed_rows(spark.sparkContext, new)
    verdict = audit(spark, config, evidence_of(spark, landed, begin, end, planted), memory)
    verdict.save(config.folder)
    return verdict


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_same_on_spark(spark: Any, tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    write_table(spark, tmp_path, 0, EACH)
    check_planted(of_spark(spark, tmp_path, 0, EACH), EACH)
    written = parquet.read_table(tmp_path / "audit" / "1.exceptions.parquet").to_pylist()
    assert {(row["kind"], row["partition"], row["first"]) for row in written} == PLANTED

    write_table(spark, tmp_path, EACH, 2 * EACH, planted=False)
    check_clean(of_spark(spark, tmp_path, EACH, 2 * EACH, planted=False), EACH)
    accounts = parquet.read_table(tmp_path / "audit" / "2.accounts.parquet")
    assert sum(accounts["landed"].to_pylist()) == EACH * PARTITIONS // 2


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_million_records(spark: Any, tmp_path: Path) -> None:
    each = 840_000
    write_table(spark, tmp_path, 0, each)
    began = time.monotonic()
    verdict = of_spark(spark, tmp_path, 0, each)
    seconds = time.monotonic() - began
    check_planted(verdict, each)
    print(f"{each * PARTITIONS:,} records in {seconds:.1f} s: {each * PARTITIONS / seconds:,.0f} records/s")


@pytest.mark.long
def test_runs_of_rows() -> None:
    import pyarrow as pa

    from mesh.pipelines.audit.landed import runs_of

    rows = [("eu", "t", 0, 5), ("eu", "t", 0, 4), ("us", "t", 0, 6), ("eu", "t", 1, 6), ("eu", "t", 0, 4)]
    rows.append(("eu", "t", 0, 9))
    names = ["cluster", "topic", "partition", "offset"]
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    assert sorted(tuple(row.values()) for row in runs_of(table).to_pylist()) == [
        ("eu", "t", 0, 4, 4),
        ("eu", "t", 0, 4, 5),
        ("eu", "t", 0, 9, 9),
        ("eu", "t", 1, 6, 6),
        ("us", "t", 0, 6, 6),
    ]


@pytest.mark.long
@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_file_says_by_its_path_what_it_does_not_hold(tmp_path: Path, prefix: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    from mesh.pipelines.audit.landed import _rows_of_file

    folder = tmp_path / "topic=a%2Fb" / "dt=2026-01-01"
    folder.mkdir(parents=True)
    offsets = [3, 4, 5, 4, 9]
    parquet.write_table(
        pa.table({"cluster": ["eu"] * 5, "partition": [1] * 5, "offset": offsets}), folder / "x.parquet"
    )
    path = str(folder / "x.parquet")
    found = sorted(_rows_of_file(prefix + path.replace("%", "%25") if prefix else path))
    assert found == [(("eu", "a/b", 1), "landed", run) for run in [(3, 4), (4, 5), (9, 9)]]
