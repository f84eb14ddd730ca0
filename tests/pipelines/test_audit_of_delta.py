"""An audit of a Delta table that a landing on Spark has made of the records of a real mesh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesh.pipelines import landing
from mesh.pipelines.audit.audit import next_audit
from tests.integration.bench import Bench
from tests.integration.conftest import bench as bench
from tests.pipelines.test_audit_of_a_pool import audit_of, start_with_journal

pytest.importorskip("deltalake", reason="it comes with the extra: pip install 'kafka-mesh[deltalake]'")
pytestmark = [pytest.mark.long, pytest.mark.kafka]


def land(spark: Any, bench: Bench, folder: Path) -> None:
    """Lands the available records; those of the previous landing are acknowledged."""
    landing.land(
        spark,
        landing.Landing.model_validate(
            {
                "source": {
                    "url": bench.mesh.admin_url,
                    "virtual_cluster": "tested",
                    "group": bench.group,
                    "topics": [bench.topic],
                },
                "format": "delta",
                "table": str(folder / "table"),
                "checkpoint": str(folder / "checkpoint"),
            }
        ),
        is_stopped=lambda: False,
        available_now=True,
    )


@pytest.mark.timeout(300)
def test_rows_that_are_missing_in_it_are_found(bench: Bench, spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    start_with_journal(bench)
    bench.feed(600)
    land(spark, bench, tmp_path)
    land(spark, bench, tmp_path)
    bench.until_all_committed()
    table = {"table": str(tmp_path / "table")}
    verdict = next_audit(spark, audit_of(bench, tmp_path, landed=table, state=str(tmp_path / "whole")))
    print(*verdict.lines(), sep="\n")
    assert verdict.holds
    assert not list(verdict.deviations)
    totals = verdict.totals
    assert totals["expected"] == totals["acknowledged"] == totals["landed"] == 600

    rows = DeltaTable(table["table"])
    lost = ("eu", bench.topic, 0, 7), ("us", bench.topic, 2, 11)
    for cluster, _, partition, offset in lost:
        rows.delete(f"cluster = '{cluster}' and partition = {partition} and offset = {offset}")
    verdict = next_audit(spark, audit_of(bench, tmp_path, landed=table, state=str(tmp_path / "holed")))
    print(*verdict.lines(), sep="\n")
    found = {(*place, each.first) for place, each in verdict.deviations if each.kind == "not_landed"}
    assert found == set(lost)
    assert all(each.kind == "not_landed" and each.first == each.last for _, each in verdict.deviations)
    assert not verdict.holds
    assert verdict.totals["landed"] == 598
