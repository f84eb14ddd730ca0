"""Spark's own Kafka source, to files and to Spark's own Kafka sink, in a separate process.

`python -m tests.spark.copying ADDRESS READ WRITTEN FOLDER COUNT` ends when both have so many records, and writes
FOLDER/told.json: `restarts`, how often a query failed and was started again, and `values`, those in the files.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.spark import session

_A_BATCH = 500
"""The most records of a batch; small, so that there are many batches."""


class Copying:
    """One query, which is started again from its checkpoint when it has failed."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._query = start()
        self._rows = 0
        self.restarts = 0

    def rows(self) -> int:
        """How many records it has had since its first start."""
        if self._query.exception() is not None:
            self._rows, self._query = self._rows + self._had(), self._start()
            self.restarts += 1
        return self._rows + self._had()

    def stop(self) -> None:
        self._query.stop()

    def _had(self) -> int:
        return sum(each["numInputRows"] for each in self._query.recentProgress)


def main(address: str, read: str, written: str, folder: Path, count: int) -> None:
    spark = session()
    servers = {"kafka.bootstrap.servers": address}

    def source() -> Any:
        begins = {"subscribe": read, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(_A_BATCH)}
        return spark.readStream.format("kafka").options(**servers, **begins).load().selectExpr("key", "value")

    def to_files() -> Any:
        writer = source().writeStream.format("parquet").option("path", str(folder / "files"))
        return writer.option("checkpointLocation", str(folder / "files-checkpoint")).start()

    def to_kafka() -> Any:
        writer = source().writeStream.format("kafka").options(**servers, topic=written)
        return writer.option("checkpointLocation", str(folder / "kafka-checkpoint")).start()

    queries = [Copying(to_files), Copying(to_kafka)]
    while any(query.rows() < count for query in queries):
        time.sleep(0.2)
    for query in queries:
        query.stop()
    rows = spark.read.parquet(str(folder / "files")).collect()
    values = [bytes(row["value"]).decode() for row in rows]
    told = {"restarts": sum(query.restarts for query in queries), "values": values}
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]))
