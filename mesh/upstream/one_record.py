"""Reads one record of an upstream log, for an operator."""

from __future__ import annotations

import time
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.cimpl import TIMESTAMP_NOT_AVAILABLE

from mesh.records.decode import DecodedRecord
from mesh.records.spans import UpstreamPartition
from mesh.upstream.librdkafka_properties import Properties, connection_properties
from mesh.upstream.property_files import check_files

_ALWAYS: Properties = {
    "group.id": "kafka-mesh-look",  # librdkafka requires a group id; nothing joins or commits with it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "enable.metrics.push": False,
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 1 << 20,
}
_OVER = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


def read_record(properties: Properties, source: UpstreamPartition, offset: int, timeout: float) -> DecodedRecord | None:
    """Returns the first record at or above an offset, decompressed; None if there is none, or it is gone.

    Blocks for `timeout` seconds at most, and closes its consumer: call it in a thread. Raises KafkaException.
    """
    deadline = time.monotonic() + timeout
    check_files(properties)
    consumer = Consumer({**connection_properties(properties), **_ALWAYS})
    try:
        consumer.assign([TopicPartition(source.topic, source.partition, offset)])
        while (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(left)
            if message is None:
                break
            if (error := message.error()) is None:
                return _record(message)
            if error.code() in _OVER:
                return None
            if not error.retriable() and error.code() > 0:
                raise KafkaException(error)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"not read within {timeout:g} s"))
    finally:
        consumer.close()


def _record(message: Message) -> DecodedRecord:
    kind, timestamp = message.timestamp()
    offset = message.offset()
    assert offset is not None  # a message without an error has an offset
    return DecodedRecord(
        offset,
        timestamp if kind != TIMESTAMP_NOT_AVAILABLE else -1,
        False,
        message.key(),
        message.value(),
        tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),  # consumed headers have bytes as values
    )
