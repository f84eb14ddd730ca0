"""Reads a landed table as runs of offsets: ten million rows are a few of them.

It reads only files that no earlier audit has read. A table of Spark's Parquet sink lists its files in the sink's log, a
Delta table in the Delta log. Other files in the folder do not belong to the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyarrow.parquet import ParquetFile

ROWS_AT_A_TIME = 1_000_000
_PLACE = [("cluster", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
_ROWS = pa.schema([*_PLACE, ("offset", pa.int64())])
_SCHEMA = pa.schema([*_PLACE, ("first", pa.int64()), ("last", pa.int64())])


def files_of(spark: Any, table: str) -> list[str]:
    """Returns the files that currently belong to the table."""
    if (Path(table) / "_delta_log").is_dir():
        from deltalake import DeltaTable

        files = DeltaTable(table).file_uris()  # local files as paths, although Delta writes them as URIs
        return sorted(each if "://" in each else unquote(each) for each in files)
    if not Path(table).is_dir() and "://" not in table:
        return []
    return sorted(spark.read.parquet(table).inputFiles())


def landed_rows(context: Any, files: Sequence[str]) -> Any:
    """Returns an RDD of (place, `landed`, (first, last)) for each run of offsets in these files. A record that is
    there twice is in two runs. The executors read files with pyarrow, since Spark's own conversion to Arrow requires
    pandas."""
    return context.parallelize(list(files), len(files)).flatMap(_rows_of_file)


def _rows_of_file(file: str) -> Iterator[tuple[tuple[str, str, int], str, tuple[int, int]]]:
    filesystem, path = _opened(file)
    named = dict(part.split("=", 1) for part in path.split("/") if "=" in part)  # the partition columns of the table
    with filesystem.open_input_file(path) as opened:
        parquet = ParquetFile(opened)
        columns = [field.name for field in _ROWS if field.name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(ROWS_AT_A_TIME, columns=columns):
            if batch.num_rows:
                for run in runs_of(_completed(batch, named)).to_pylist():
                    yield (run["cluster"], run["topic"], run["partition"]), "landed", (run["first"], run["last"])


def _completed(batch: pa.RecordBatch, named: Mapping[str, str]) -> pa.Table:
    columns = [
        batch[field.name] if field.name in batch.schema.names else pa.repeat(unquote(named[field.name]), batch.num_rows)
        for field in _ROWS
    ]
    return pa.table([column.cast(field.type) for column, field in zip(columns, _ROWS, strict=True)], schema=_ROWS)


def _opened(file: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system and path of a file. Hadoop writes local URIs with one slash. pyarrow does not decode the
    % escapes of a URI."""
    if file.startswith("file:"):
        return fs.LocalFileSystem(), "/" + unquote(file.removeprefix("file:")).lstrip("/")
    if "://" not in file:
        return fs.LocalFileSystem(), file
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(file)
    return found


def runs_of(rows: pa.Table) -> pa.RecordBatch:
    """Returns the runs of offsets in rows of a table. rows: with the columns cluster, topic, partition, offset."""
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
