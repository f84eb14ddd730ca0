"""Reads a range by librdkafka, record by record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pyspark_kafka_mesh.columns import Columns
from pyspark_kafka_mesh.failures import GIVE_UP_AFTER, DataLost, ReadFailed, gone, shortened
from pyspark_kafka_mesh.offsets import COMMITTED, Range

BATCH = 10_000
"""The most records of one Arrow batch."""
ASK_WITHIN = 5.0
"""Seconds for an answer."""
LINGER = 0.03
"""Seconds for which one call waits for a full batch."""


def read(
    piece: Range, properties: Mapping[str, str], fail_on_loss: bool, headers: bool, isolation: str
) -> Iterator[tuple[int, Columns]]:
    """Reads a range; returns the same as `columns.decode`. Raises DataLost and ReadFailed."""
    consumer = Consumer(_properties(properties, fail_on_loss, isolation))
    try:
        consumer.assign([TopicPartition(piece.topic, piece.partition, piece.first)])
        heard = time.monotonic()
        while True:
            messages = consumer.consume(BATCH, LINGER)
            records, end = _sort(messages, piece)
            if records:
                heard = time.monotonic()
                yield len(records), _columns(records, headers)
            if end is not None and (end > piece.last or not _is_open(piece, end, properties, isolation)):
                if end <= piece.last and fail_on_loss:
                    raise DataLost(shortened(piece, end))
                return
            if time.monotonic() - heard > GIVE_UP_AFTER:
                raise ReadFailed(f"nothing came of {piece} for {GIVE_UP_AFTER:g} s")
    finally:
        consumer.close()


def _sort(messages: Sequence[Message], piece: Range) -> tuple[list[Message], int | None]:
    """Returns the records of the range, and the offset at which the range or its log ends; None if neither has
    ended."""
    end: int | None = None
    records: list[Message] = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            end = _offset(message)
        else:
            _check(error, piece)
    if records and _offset(records[-1]) >= piece.last:
        end = piece.last + 1
    while records and _offset(records[-1]) > piece.last:
        records.pop()
    return records, end


def _is_open(piece: Range, end: int, properties: Mapping[str, str], isolation: str) -> bool:
    """Returns whether the log continues above its committed part: a transaction is open there, for which the caller
    waits."""
    if isolation != COMMITTED:
        return False
    consumer = Consumer(_properties(properties, False, "read_uncommitted"))
    try:
        place = TopicPartition(piece.topic, piece.partition)
        bounds = consumer.get_watermark_offsets(place, timeout=ASK_WITHIN, cached=False)
    except KafkaException:
        return True  # not known yet; the next attempt finds out
    finally:
        consumer.close()
    return bounds is None or bounds[1] > end


def _check(error: KafkaError, piece: Range) -> None:
    """Raises DataLost or ReadFailed for an error that does not go away by waiting."""
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise DataLost(gone(piece, error.str()))
    if not error.retriable() and error.code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
        raise ReadFailed(f"{piece}: {error.str()}") from KafkaException(error)


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _properties(properties: Mapping[str, str], fail_on_loss: bool, isolation: str) -> dict[str, Any]:
    return {
        "fetch.wait.max.ms": 50,
        "queued.min.messages": 100_000,
        "queued.max.messages.kbytes": 65_536,
        **properties,
        "group.id": "kafka-mesh-reader",  # librdkafka requires a group id; nothing joins or commits with it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": "error" if fail_on_loss else "earliest",
    }


def _columns(messages: Sequence[Message], headers: bool) -> Columns:
    times = [message.timestamp() for message in messages]
    columns = {
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": pa.array([time for _, time in times], pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC")),
        # In Spark's numbers: 0 is the create time, 1 the append time; librdkafka has 1 and 2.
        "timestampType": pa.array([kind - 1 for kind, _ in times], pa.int32()),
    }
    return columns | {"headers": _headers(messages)} if headers else columns


def _headers(messages: Sequence[Message]) -> pa.Array:
    """Returns the column of headers. It makes Python objects only for names and values."""
    ends, names, values = [0], [], []
    for message in messages:
        headers: Any = message.headers()
        for name, value in headers or ():
            names.append(name)
            values.append(value)
        ends.append(len(names))
    structs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], ["key", "value"]
    )
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs)
