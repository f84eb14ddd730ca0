"""`format("kafka-mesh")`: one stream over several Kafka clusters, in the same pool as other consumers.

Offsets are range leases. Spark writes them to its checkpoint before any task runs, so a repeated batch has exactly the
same records. A lease is acknowledged when Spark asks for the next batch, which it does only when this one is done. See
docs/spark.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_kafka_mesh.client import Client
from pyspark_kafka_mesh.driver import Driver
from pyspark_kafka_mesh.offsets import Offset, Range, tasks
from pyspark_kafka_mesh.options import Options, parse
from pyspark_kafka_mesh.renewing import Renewing

BEFORE_HEADERS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
)
HEADERS = "headers array<struct<key: string, value: binary>>"


class KafkaMeshSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "kafka-mesh"

    def schema(self) -> str:
        headers = [HEADERS] if parse(self.options).headers else []
        return ", ".join([BEFORE_HEADERS, *headers, "cluster string"])

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(parse(self.options), schema)


@dataclass
class Piece(InputPartition):
    """One task. properties: librdkafka's, for the cluster of the ranges. isolation: as in the offset."""

    ranges: tuple[Range, ...]
    properties: Mapping[str, str]
    isolation: str


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream. On the driver one instance lives as long as the query runs; each task has a copy of a
    fresh one."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._state: Driver | None = None

    def __getstate__(self) -> tuple[Options, StructType]:
        return self._options, self._schema

    def __setstate__(self, state: tuple[Options, StructType]) -> None:
        self._options, self._schema = state
        self._state = None

    @property
    def _driver(self) -> Driver:
        if self._state is None:
            client = Client(self._options)
            self._state = Driver(client, Renewing(client))
        return self._state

    def initialOffset(self) -> dict[str, Any]:
        return self._driver.initial.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._driver.stop_at_the_end()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.most) if self._options.most else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._driver.after(Offset.of_json(start), most).to_json()

    def reportLatestOffset(self) -> dict[str, int] | None:
        return self._driver.backlog()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        offset = Offset.of_json(end)
        self._driver.hold(offset)
        bootstrap = dict(offset.bootstrap)
        cut = tasks(offset.ranges, self._options.pieces)
        return [Piece(each, self._properties(each[0].cluster, bootstrap), offset.isolation) for each in cut]

    def _properties(self, cluster: str, bootstrap: Mapping[str, str]) -> Mapping[str, str]:
        return {"bootstrap.servers": bootstrap[cluster], **self._options.clusters.get(cluster.lower(), {})}

    def commit(self, end: dict[str, Any]) -> None:
        self._driver.acknowledge(Offset.of_json(end))

    def stop(self) -> None:
        if self._state is not None:
            self._state.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Only tasks need it. Spark starts four Python processes for a query, and gives each ten seconds to start.
        from pyspark_kafka_mesh.reading import read

        assert isinstance(partition, Piece)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        fails = self._options.fail_on_data_loss
        return read(partition.ranges, partition.properties, fails, schema, partition.isolation)
