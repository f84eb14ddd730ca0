"""Reads the ranges of a task into Arrow, directly from their upstream cluster.

Every attempt reads the same records. Missing offsets inside a range (compaction, transaction markers) are normal; a
range whose beginning or end was deleted is an error, unless `failOnDataLoss` is false.

Batches are read as they are in the log, over the mesh's own connections (docs/decisions/0032). If that is impossible
(properties that only librdkafka knows, record formats before Kafka 0.11), librdkafka reads record by record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from mesh.records.batch import CorruptBatch
from mesh.security.client_properties import unsupported_reason
from pyspark_kafka_mesh import by_librdkafka
from pyspark_kafka_mesh.columns import Columns, decode
from pyspark_kafka_mesh.failures import ReadFailed
from pyspark_kafka_mesh.offsets import COMMITTED, Range
from pyspark_kafka_mesh.undecoded import NeedsLibrdkafka, Upstream


def read(
    pieces: Sequence[Range],
    properties: Mapping[str, str],
    fail_on_loss: bool,
    schema: pa.Schema,
    isolation: str = COMMITTED,
) -> Iterator[pa.RecordBatch]:
    """Reads ranges into Arrow. pieces: ranges of one cluster. properties: librdkafka's. schema: the source's, or some
    of its columns. isolation: Kafka's isolation level. Raises DataLost and ReadFailed."""
    headers = "headers" in schema.names
    if unsupported_reason(properties) is not None:
        for piece in pieces:
            for count, columns in by_librdkafka.read(piece, properties, fail_on_loss, headers, isolation):
                yield _batch(piece, count, columns, schema)
        return
    with Upstream(pieces[0].cluster, properties, fail_on_loss, isolation == COMMITTED) as upstream:
        for piece in pieces:
            for count, columns in _undecoded(upstream, piece, properties, fail_on_loss, headers, isolation):
                yield _batch(piece, count, columns, schema)


def _undecoded(
    upstream: Upstream,
    piece: Range,
    properties: Mapping[str, str],
    fail_on_loss: bool,
    headers: bool,
    isolation: str,
) -> Iterator[tuple[int, Columns]]:
    try:
        for batches in upstream.read(piece):
            yield from decode(batches, piece.first, piece.last, headers)
    except CorruptBatch as problem:
        raise ReadFailed(f"{piece}: {problem}") from problem
    except NeedsLibrdkafka as rest:
        piece = replace(piece, first=rest.position)
        yield from by_librdkafka.read(piece, properties, fail_on_loss, headers, isolation)


def _batch(piece: Range, count: int, columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    every = {
        **columns,
        "topic": pa.repeat(pa.scalar(piece.topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(piece.partition, pa.int32()), count),
        "cluster": pa.repeat(pa.scalar(piece.cluster, pa.string()), count),
    }
    return pa.RecordBatch.from_arrays([every[each.name].cast(each.type) for each in schema], schema=schema)
