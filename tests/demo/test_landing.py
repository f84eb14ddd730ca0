"""Landed records, the demo's criteria of success, and its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mesh.demo.processes.journal import RecordId
from mesh.demo.processes.judge import JudgeVerdict

LOST = RecordId("eu-1")

pytest.importorskip("pyarrow", reason="it comes with the extra: pip install 'kafka-mesh[spark]'")


def test_each_file_that_the_log_names_is_read_once(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    from mesh.demo.processes.landed import LandedTable

    table = LandedTable(tmp_path / "table")
    assert table.count() == 0
    log = table.folder / "_spark_metadata"
    log.mkdir(parents=True)
    time = pa.array([1_000, 2_000], pa.timestamp("ms", tz="UTC"))
    for number, name in enumerate(("a", "b", "broken-off")):
        values = [json.dumps({"order": f"{number}-{each}"}).encode() for each in range(2)]
        rows = {"key": [b"1", b"2"], "value": values, "headers": [[], []], "timestamp": time}
        parquet.write_table(pa.table(rows), table.folder / f"{name}.parquet")
    lines = [json.dumps({"path": f"file://{table.folder}/{name}.parquet"}) for name in ("a", "b")]
    (log / "0").write_text("\n".join(["v1", lines[0]]))
    assert table.count() == 2
    (log / "1.compact").write_text("\n".join(["v1", *lines]))
    assert table.count() == 4
    assert [entry.id for entry in table.entries()] == ["0-0", "0-1", "1-0", "1-1"]


@pytest.mark.parametrize(
    ("missing", "repeated", "holds", "is_good"),
    [((), (), True, True), ((), (), False, False), ((LOST,), (), True, False), ((), (LOST,), True, False)],
)
def test_both_the_count_and_the_audit_have_to_agree(
    missing: tuple[RecordId, ...], repeated: tuple[RecordId, ...], holds: bool, is_good: bool
) -> None:
    from mesh.demo.landing import LandingOutcome

    counted = JudgeVerdict(2, 2, missing, repeated, (), ())
    outcome = LandingOutcome(counted, holds, ("VERDICT: of the audit", "page: report.html"), Path("report.html"))
    assert outcome.is_good is is_good
    assert [*outcome.lines()][-2:] == ["VERDICT: of the audit", "page: report.html"]


def test_the_page_stays(tmp_path: Path) -> None:
    from mesh.demo.landing import _leave_only

    report = tmp_path / "report"
    for folder in (report, tmp_path / "table"):
        folder.mkdir()
        (folder / "file").touch()
    (tmp_path / "kafka-mesh.log").touch()
    _leave_only(tmp_path, report)
    assert [*tmp_path.rglob("*")] == [report, report / "file"]
