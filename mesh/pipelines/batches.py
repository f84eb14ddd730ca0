"""The table of batches: a row for each upstream partition in each batch of a landing.

A batch is a folder `batch=N/HOLDER` with one Parquet file. HOLDER names the checkpoint: another checkpoint counts its
batches from 0 again. (Earlier releases wrote the file into `batch=N`.) Its content depends only on the checkpoint and
the landed files. So after a crash the missing files are written again, under the same names. A row is written after its
records have landed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mesh.pipelines.checkpoints import NONE, Checkpoint, LeasedBatch, Place, highest
from mesh.pipelines.hadoop import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "cluster string, topic string, partition int, first long, last long, rows long, lease string, holder string"
Counts: TypeAlias = Mapping[Place, int]
_FOLDER = "batch="
_DONE = "_SUCCESS"
"""The file that Spark writes last."""
_COMPACT = ".compact"
"""The end of the names of log entries with all files up to a batch."""


class Batches:
    """The table of batches beside a landed table. folder: the folder of the table of batches. landed: the folder of a
    landed Parquet table, None for another format."""

    def __init__(self, spark: SparkSession, folder: str, checkpoint: Checkpoint, landed: str | None) -> None:
        self._spark = spark
        self._folder = folder
        self._table = Folder(spark, folder)
        self._checkpoint = checkpoint
        self._landed = landed
        self._log = SinkLog(Folder(spark, f"{landed}/_spark_metadata")) if landed is not None else None
        self._written: set[int] = set()
        """Batches of this checkpoint that are known to be in the table."""

    def last(self) -> int:
        """Returns the number of the last batch in the table, of any checkpoint."""
        return highest(each.removeprefix(_FOLDER) for each in self._table.names() if each.startswith(_FOLDER))

    def has(self, batch: int, holder: str) -> bool:
        """Returns whether the table has a whole batch of this checkpoint."""
        return self._table.has(f"{_FOLDER}{batch}/{holder}/{_DONE}")

    def is_of(self, batch: int, leased: LeasedBatch) -> bool:
        """Returns whether this batch in the table may have this lease. A batch without rows may have any."""
        leases = self._leases([batch]).get(batch)
        return not leases or leased.lease in leases

    def catch_up(self) -> int:
        """Writes every finished batch that is not in the table. Returns how many those were. Spark remembers a
        hundred."""
        missing = [each for each in self._checkpoint.finished() if each not in self._written]
        if not missing:
            return 0
        leased = {batch: self._checkpoint.leased(batch) for batch in missing}
        missing = [batch for batch in missing if not self.has(batch, leased[batch].holder)]
        earlier = self._leases(missing)
        missing = [batch for batch in missing if leased[batch].lease not in earlier.get(batch, ())]
        for batch in missing:
            self.write(batch, leased[batch], self._count(batch))
        self._written.update(leased)
        return len(missing)

    def write(self, batch: int, leased: LeasedBatch, counts: Counts | None) -> None:
        """Writes the rows of a batch. counts: the number of landed rows of each partition; None if it is not known any
        more."""
        rows = [
            (*place, first, last, None if counts is None else counts.get(place, 0), leased.lease, leased.holder)
            for place, (first, last) in sorted(leased.spans.items())
        ]
        frame = self._spark.createDataFrame(rows, SCHEMA).coalesce(1)
        frame.write.mode("overwrite").parquet(f"{self._folder}/{_FOLDER}{batch}/{leased.holder}")
        self._written.add(batch)

    def _leases(self, batches: Sequence[int]) -> Mapping[int, set[str]]:
        """Returns the leases of those of these batches that the table has, of any checkpoint."""
        folders = [f"{_FOLDER}{batch}" for batch in batches if self._table.has(f"{_FOLDER}{batch}")]
        found: dict[int, set[str]] = {}
        if folders:
            paths = [f"{self._folder}/{each}" for each in folders]
            rows = self._spark.read.schema("lease string, batch int").option("basePath", self._folder).parquet(*paths)
            for row in rows.distinct().collect():
                found.setdefault(row["batch"], set()).add(row["lease"])
        return found

    def _count(self, batch: int) -> Counts | None:
        files = self._log.files(batch) if self._log is not None else None
        if files is None:
            return None
        if not files:
            return {}
        from pyspark.sql import functions

        schema = "cluster string, partition int, topic string, dt date"
        rows = self._spark.read.schema(schema).option("basePath", self._landed).parquet(*files)
        groups = rows.groupBy("cluster", "topic", "partition").agg(functions.count("*").alias("rows")).collect()
        return {(each["cluster"], each["topic"], each["partition"]): each["rows"] for each in groups}


class SinkLog:
    """The log `_spark_metadata` of a table, with the files of each batch. folder: with `names`, `has` and `read` of
    Folder."""

    def __init__(self, folder: Any) -> None:
        self._folder = folder

    def last(self) -> int:
        """Returns the number of the last batch in the log."""
        return highest(each.removesuffix(_COMPACT) for each in self._folder.names())

    def files(self, batch: int) -> Sequence[str] | None:
        """Returns the files of a batch; None if the log does not list them any more. About every tenth entry has all
        files up to it."""
        if self._folder.has(str(batch)):
            return _paths(self._folder.read(str(batch)))
        if not self._folder.has(f"{batch}{_COMPACT}"):
            return []  # the batch was empty
        before = self._all_before(batch)
        if before is None:
            return None
        return [path for path in _paths(self._folder.read(f"{batch}{_COMPACT}")) if path not in before]

    def _all_before(self, batch: int) -> set[str] | None:
        names = self._folder.names()
        compacted = [
            int(name.removesuffix(_COMPACT)) for name in names if name.endswith(_COMPACT) and not name.startswith(".")
        ]
        start = max((each for each in compacted if each < batch), default=NONE)
        found = set(_paths(self._folder.read(f"{start}{_COMPACT}"))) if start > NONE else set()
        for number in range(start + 1, batch):
            if not self._folder.has(str(number)):
                return None
            found.update(_paths(self._folder.read(str(number))))
        return found


def _paths(text: str) -> list[str]:
    entries: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()[1:] if line]
    return [each["path"] for each in entries]
