"""What counts as landed: the files that the table's log names, each once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mesh.demo.children import Children
from mesh.demo.signals import StopRequest

pytest.importorskip("pyarrow", reason="it comes with the extra: pip install 'kafka-mesh[spark]'")


def test_each_file_that_the_log_names_is_read_once(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    from mesh.demo.landing import LandingDemo

    with StopRequest() as stop, Children(tmp_path) as children:
        demo = LandingDemo(tmp_path, children, stop)
    log = demo.table / "_spark_metadata"
    log.mkdir(parents=True)
    time = pa.array([1_000, 2_000], pa.timestamp("ms", tz="UTC"))
    for number, name in enumerate(("a", "b", "broken-off")):
        values = [json.dumps({"order": f"{number}-{each}"}).encode() for each in range(2)]
        rows = {"key": [b"1", b"2"], "value": values, "headers": [[], []], "timestamp": time}
        parquet.write_table(pa.table(rows), demo.table / f"{name}.parquet")
    lines = [json.dumps({"path": f"file://{demo.table}/{name}.parquet"}) for name in ("a", "b")]
    (log / "0").write_text("\n".join(["v1", lines[0]]))
    (log / "1.compact").write_text("\n".join(["v1", *lines]))
    assert len(list(demo.landed())) == 4
