"""What lies in a landed table, as runs of offsets: ten million rows are a few of them.

Only files that were not looked at before are read. A Parquet table of Spark's file sink names its files in its own log,
a Delta table in its; whatever else lies in the folder is no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

RUNS = "cluster string, topic string, partition int, first long, last long"
_SCHEMA = pa.schema(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ]
)


def files_of(spark: Any, table: str) -> list[str]:
    """Those that are part of the table now."""
    if (Path(table) / "_delta_log").is_dir():
        from deltalake import DeltaTable

        return sorted(DeltaTable(table).file_uris())
    if not Path(table).is_dir() and "://" not in table:
        return []
    return sorted(spark.read.parquet(table).inputFiles())


def landed_runs(spark: Any, table: str, files: Sequence[str]) -> Any:
    """A row for each run of offsets in these files; a record that lies there twice is in two of them."""
    rows = spark.read.option("basePath", table).parquet(*files)
    rows = rows.selectExpr("string(cluster)", "string(topic)", "int(partition)", "bigint(offset)")
    return rows.mapInArrow(_to_runs, RUNS)


def _to_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield runs_of(pa.table(batch))


def runs_of(rows: pa.Table) -> pa.RecordBatch:
    """rows: cluster, topic, partition, offset."""
    names = ["cluster", "topic", "partition"]
    rows = rows.sort_by([(name, "ascending") for name in (*names, "offset")]).combine_chunks()
    here, after = rows.slice(0, rows.num_rows - 1), rows.slice(1)
    goes_on = pc.equal(pc.add(here["offset"], 1), after["offset"])
    for name in names:
        goes_on = pc.and_(goes_on, pc.equal(here[name], after[name]))
    breaks = pc.invert(goes_on)
    true = pa.chunked_array([pa.array([True])])
    begins = pa.chunked_array([*true.chunks, *breaks.chunks], pa.bool_())
    ends = pa.chunked_array([*breaks.chunks, *true.chunks], pa.bool_())
    firsts, lasts = rows.filter(begins), rows.filter(ends)
    columns = [firsts[name].combine_chunks() for name in (*names, "offset")] + [lasts["offset"].combine_chunks()]
    arrays = [_whole(column).cast(field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _whole(column: Any) -> Any:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
