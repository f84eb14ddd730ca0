"""`format("kafka-mesh")`: one stream over several Kafka clusters, in the same pool as everybody else.

Offsets are range leases. Spark writes them to its checkpoint before any task runs, so a batch is read again exactly as
it was after any failure; a lease is acknowledged when Spark asks for what comes after it, which it does only when that
batch is done. docs/spark.md.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_kafka_mesh.client import Client, MeshRefused, MeshUnavailable
from pyspark_kafka_mesh.offsets import Offset, Range, pieces
from pyspark_kafka_mesh.options import Options, parse
from pyspark_kafka_mesh.reading import read
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
    """One task. properties: librdkafka's, for the cluster of the range."""

    range: Range
    properties: Mapping[str, str]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """On the driver one instance lives as long as the query runs; each task has a copy of a fresh one."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._state: _Driver | None = None

    def __getstate__(self) -> tuple[Options, StructType]:
        return self._options, self._schema

    def __setstate__(self, state: tuple[Options, StructType]) -> None:
        self._options, self._schema = state
        self._state = None

    @property
    def _driver(self) -> _Driver:
        if self._state is None:
            self._state = _Driver(self._options)
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
        return self._driver.tasks(Offset.of_json(end)) if start != end else []

    def commit(self, end: dict[str, Any]) -> None:
        self._driver.acknowledge(Offset.of_json(end))

    def stop(self) -> None:
        if self._state is not None:
            self._state.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        return read(partition.range, partition.properties, self._options.fail_on_data_loss, schema)


class _Driver:
    """What one run of a query knows. initial: stable, since Spark asks twice; known: leased or claimed by this run."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client = Client(options)
        self._renewing = Renewing(self._client)
        self._known: str | None = None
        self._acknowledged: str | None = None
        self._ends: Sequence[dict[str, Any]] | None = None
        self.initial = Offset(uuid.uuid4().hex)

    def stop_at_the_end(self) -> None:
        """Nothing that comes later is read in this run."""
        self._ends = self._client.ends()

    def after(self, start: Offset, most: int | None) -> Offset:
        """Spark asks for more: what it has is done."""
        self.acknowledge(start)
        offset = self._client.lease(start, most, self._ends)
        if offset is not start:
            self._known = offset.lease
            self._renewing.renew(offset)
        return offset

    def acknowledge(self, offset: Offset) -> None:
        if offset.lease is not None and offset.lease != self._acknowledged:
            self._client.acknowledge(offset)
            self._acknowledged = offset.lease
            self._renewing.forget(offset)

    def tasks(self, end: Offset) -> Sequence[Piece]:
        if end.lease != self._known:
            self._client.claim(end)
            self._known = end.lease
            self._renewing.renew(end)
        bootstrap = dict(end.bootstrap)
        return [
            Piece(each, self._properties(each.cluster, bootstrap)) for each in pieces(end.ranges, self._options.pieces)
        ]

    def backlog(self) -> dict[str, int] | None:
        """For the query's progress; it is not worth failing for."""
        try:
            return self._client.backlog()
        except (MeshUnavailable, MeshRefused):
            return None

    def stop(self) -> None:
        """Leases stay, for the next run of this query goes on with them."""
        self._renewing.stop()

    def _properties(self, cluster: str, bootstrap: Mapping[str, str]) -> Mapping[str, str]:
        return {"bootstrap.servers": bootstrap[cluster], **self._options.clusters.get(cluster.lower(), {})}
