"""The table of batches: a row for each upstream partition in each batch of a landing.

A batch is a folder `batch=N` with one Parquet file. Its content depends only on the checkpoint and the landed files. So
after a crash the missing files are written again, under the same names. A row is written after its records have landed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from mesh.pipelines.hadoop import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "cluster string, topic string, partition int, first long, last long, rows long, lease string"
Place: TypeAlias = tuple[str, str, int]
"""Cluster, topic, partition."""
Counts: TypeAlias = Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """The ranges of a batch according to its checkpoint: the lowest and the highest offset of each partition. holder: a
    name that is unique to the checkpoint."""

    holder: str
    lease: str
    spans: Mapping[Place, tuple[int, int]]

    @staticmethod
    def of(text: str) -> LeasedBatch:
        """Reads the lease of a batch. text: the content of a file in the checkpoint's `offsets`."""
        offset = json.loads(text.splitlines()[2])
        spans: dict[Place, tuple[int, int]] = {}
        for each in offset["ranges"]:
            place = (each["cluster"], each["topic"], each["partition"])
            first, last = spans.get(place, (each["first"], each["last"]))
            spans[place] = (min(first, each["first"]), max(last, each["last"]))
        return LeasedBatch(offset["holder"], offset["lease"], spans)


class Batches:
    """The table of batches beside a landed table. folder: the folder of the table of batches. checkpoint: the folder of
    the landing's checkpoint. landed: the folder of a landed Parquet table, None for another format."""

    def __init__(self, spark: SparkSession, folder: str, checkpoint: str, landed: str | None) -> None:
        self._spark = spark
        self._folder = folder
        self._table = Folder(spark, folder)
        self._offsets = Folder(spark, f"{checkpoint}/offsets")
        self._commits = Folder(spark, f"{checkpoint}/commits")
        self._landed = landed
        self._log = SinkLog(Folder(spark, f"{landed}/_spark_metadata")) if landed is not None else None
        self._written = {_number(each) for each in self._table.names() if each.startswith("batch=")}

    def leased(self, batch: int) -> LeasedBatch:
        """Returns the lease of a planned batch."""
        return LeasedBatch.of(self._offsets.read(str(batch)))

    def catch_up(self) -> int:
        """Writes every finished batch that is not in the table. Returns how many those were. Spark remembers a
        hundred."""
        done = [int(each) for each in self._commits.names() if each.isdigit()]
        missing = sorted(set(done) - self._written)
        for batch in missing:
            self.write(batch, self._count(batch))
        return len(missing)

    def write(self, batch: int, counts: Counts | None) -> None:
        """Writes the rows of a batch. counts: the number of landed rows of each partition; None if it is not known any
        more."""
        leased = self.leased(batch)
        rows = [
            (*place, first, last, None if counts is None else counts.get(place, 0), leased.lease)
            for place, (first, last) in sorted(leased.spans.items())
        ]
        frame = self._spark.createDataFrame(rows, SCHEMA).coalesce(1)
        frame.write.mode("overwrite").parquet(f"{self._folder}/batch={batch}")
        self._written.add(batch)

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

    def files(self, batch: int) -> Sequence[str] | None:
        """Returns the files of a batch; None if the log does not list them any more. About every tenth entry has all
        files up to it."""
        if self._folder.has(str(batch)):
            return _paths(self._folder.read(str(batch)))
        if not self._folder.has(f"{batch}.compact"):
            return []  # the batch was empty
        before = self._all_before(batch)
        if before is None:
            return None
        return [path for path in _paths(self._folder.read(f"{batch}.compact")) if path not in before]

    def _all_before(self, batch: int) -> set[str] | None:
        names = self._folder.names()
        compacted = [
            int(name.split(".")[0]) for name in names if name.endswith(".compact") and not name.startswith(".")
        ]
        start = max((each for each in compacted if each < batch), default=-1)
        found = set(_paths(self._folder.read(f"{start}.compact"))) if start >= 0 else set()
        for number in range(start + 1, batch):
            if not self._folder.has(str(number)):
                return None
            found.update(_paths(self._folder.read(str(number))))
        return found


def _number(name: str) -> int:
    return int(name.partition("=")[2])


def _paths(text: str) -> list[str]:
    entries: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()[1:] if line]
    return [each["path"] for each in entries]
