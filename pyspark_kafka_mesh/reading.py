"""What a task does: read one range straight from its upstream cluster, into Arrow.

Every attempt reads the same records, for ever. Offsets that are missing inside a range (compaction, transaction
markers) are normal; a range whose beginning was deleted is an error, unless `failOnDataLoss` is false.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pyspark_kafka_mesh.offsets import Range

BATCH = 10_000
"""Records of one Arrow batch at most."""
LINGER = 0.03
"""Seconds that one call waits for a full batch."""
GIVE_UP_AFTER = 120.0
"""Seconds without any record or answer."""


class DataLost(RuntimeError):
    """The beginning of a range is not there any more upstream."""


class ReadFailed(RuntimeError):
    """The upstream cluster refuses, or does not answer."""


def read(
    piece: Range, properties: Mapping[str, str], fail_on_loss: bool, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Raises DataLost, ReadFailed."""
    consumer = Consumer(_properties(properties, fail_on_loss))
    try:
        consumer.assign([TopicPartition(piece.topic, piece.partition, piece.first)])
        heard = time.monotonic()
        while True:
            messages = consumer.consume(BATCH, LINGER)
            records, is_over = _sort(messages, piece)
            if records:
                heard = time.monotonic()
                yield to_arrow(records, piece, schema)
            if is_over:
                return
            if time.monotonic() - heard > GIVE_UP_AFTER:
                raise ReadFailed(f"nothing came of {piece} for {GIVE_UP_AFTER:g} s")
    finally:
        consumer.close()


def _sort(messages: Sequence[Message], piece: Range) -> tuple[list[Message], bool]:
    """The records of the range, and whether it is over."""
    is_over = False
    records: list[Message] = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        else:
            is_over = _is_end(error, piece) or is_over
    while records and _offset(records[-1]) > piece.last:
        records.pop()
        is_over = True
    return records, is_over or (bool(records) and _offset(records[-1]) == piece.last)


def _is_end(error: KafkaError, piece: Range) -> bool:
    """Of the log; what passes is waited for. Raises DataLost, ReadFailed."""
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise DataLost(
            f"the beginning of {piece} is not there any more: {error.str()}. failOnDataLoss=false goes on without it"
        )
    if not error.retriable() and error.code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
        raise ReadFailed(f"{piece}: {error.str()}") from KafkaException(error)
    return False


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _properties(properties: Mapping[str, str], fail_on_loss: bool) -> dict[str, Any]:
    return {
        "fetch.wait.max.ms": 50,
        "queued.min.messages": 100_000,
        "queued.max.messages.kbytes": 65_536,
        **properties,
        "group.id": "kafka-mesh-reader",  # librdkafka wants one; it is never joined, and nothing is committed
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error" if fail_on_loss else "earliest",
    }


def to_arrow(messages: Sequence[Message], piece: Range, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, which is the source's."""
    count = len(messages)
    times = [message.timestamp() for message in messages]
    columns = {
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
        "topic": pa.repeat(pa.scalar(piece.topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(piece.partition, pa.int32()), count),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": pa.array([time for _, time in times], pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC")),
        # As Spark has it: 0 when the record was made, 1 when it was appended; librdkafka has 1 and 2.
        "timestampType": pa.array([kind - 1 for kind, _ in times], pa.int32()),
        "cluster": pa.repeat(pa.scalar(piece.cluster, pa.string()), count),
    }
    if "headers" in schema.names:
        columns["headers"] = _headers(messages, schema.field("headers").type)
    arrays = [columns[name].cast(schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(messages: Sequence[Message], kind: pa.DataType) -> pa.Array:
    """Without a Python object for each header but its name and value."""
    ends, names, values = [0], [], []
    for message in messages:
        headers: Any = message.headers()
        for name, value in headers or ():
            names.append(name)
            values.append(value)
        ends.append(len(names))
    structs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs).cast(kind)
