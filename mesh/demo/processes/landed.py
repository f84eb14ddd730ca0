"""The table into which Spark lands, read without Spark, for the judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet

from mesh.demo.processes.journal import Entry, JournalRecord

_COLUMNS = ("key", "value", "headers", "timestamp")


class LandedTable:
    """A Parquet table of Spark's file sink, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._counts: dict[Path, int] = {}

    def count(self) -> int:
        """Returns the number of records in it. It reads only the footer of each file, once."""
        for file in self._files():
            if file not in self._counts:
                self._counts[file] = parquet.read_metadata(file).num_rows
        return sum(self._counts.values())

    def entries(self) -> Iterator[Entry]:
        for file in self._files():
            for row in parquet.ParquetFile(file).read(columns=list(_COLUMNS)).to_pylist():
                headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
                milliseconds = round(row["timestamp"].timestamp() * 1_000)
                yield Entry.of(JournalRecord(row["key"], row["value"], headers, milliseconds))

    def _files(self) -> list[Path]:
        """Returns the files in the sink's log; others belong to unfinished batches. Every tenth entry of the log
        repeats those before it."""
        logged = [batch.read_text().splitlines()[1:] for batch in (self.folder / "_spark_metadata").glob("[0-9]*")]
        paths = {json.loads(line)["path"] for lines in logged for line in lines}
        return [Path(path.removeprefix("file://")) for path in sorted(paths)]
