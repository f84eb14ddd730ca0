"""Pauses partitions in librdkafka: those that the pool has paused, and all of them while records would only pile up, or
while other readers read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from mesh.records.spans import UpstreamPartition
from mesh.upstream.librdkafka.message_runs import size_of
from mesh.upstream.librdkafka.positions.assigned_positions import topic_partitions

TRICKLE_BYTES = 256 << 10


class Pausing:
    """The paused partitions of a consumer; everything runs on its thread. reads_itself: False if other readers read its
    partitions. Then all are paused, except those that it must read itself. consumer: None while there is no
    consumer."""

    def __init__(self, reads_itself: bool) -> None:
        self._reads_itself = reads_itself
        self._read_here: set[tuple[str, int]] = set()
        self._paused: set[UpstreamPartition] = set()
        self._all_paused = False
        self._trickled = 0

    @property
    def is_reading(self) -> bool:
        """Returns whether the consumer is to receive records at all."""
        return self._reads_itself or bool(self._read_here)

    def assigned(self, consumer: Consumer | None, sources: Collection[UpstreamPartition]) -> None:
        """Starts an assignment without paused partitions, although a cooperative one may have kept some."""
        if self._all_paused or self._paused:
            self._resume(consumer, sources)
        self._paused, self._all_paused, self._trickled = set(), False, 0
        if not self._reads_itself and consumer is not None:
            self._read_here = set()
            consumer.pause(topic_partitions(sources))

    def pause(self, consumer: Consumer | None, sources: Collection[UpstreamPartition]) -> None:
        self._paused.update(sources)
        if consumer is not None:
            consumer.pause(topic_partitions(sources))

    def resume(self, consumer: Consumer | None, sources: Iterable[UpstreamPartition]) -> None:
        paused = self._paused.intersection(sources)
        self._paused -= paused
        if not self._all_paused:
            self._resume(consumer, paused)

    def read(self, consumer: Consumer, source: UpstreamPartition, position: int) -> None:
        """Reads this partition all the same, from this position, until the next assignment."""
        self._read_here.add((source.topic, source.partition))
        consumer.resume(topic_partitions([source]))
        consumer.seek(TopicPartition(source.topic, source.partition, position))

    def set_consuming(self, consumer: Consumer | None, consuming: bool, sources: Collection[UpstreamPartition]) -> None:
        self._trickled = 0
        if consuming and self._all_paused:
            self._all_paused = False
            self._resume(consumer, set(sources) - self._paused)

    def trickled(self, consumer: Consumer, message: Message, sources: Collection[UpstreamPartition]) -> None:
        """Handles a message that came though nothing is consumed. After too many bytes of them everything is paused,
        which drops prefetched messages."""
        self._trickled += size_of([message])
        if self._trickled > TRICKLE_BYTES and not self._all_paused:
            self._all_paused = True
            consumer.pause(topic_partitions(sources))

    def ours(self, messages: list[Message]) -> list[Message]:
        """Returns the messages that this consumer is to read, and all errors."""
        return messages if self._reads_itself else [each for each in messages if self._is_ours(each)]

    def _is_ours(self, message: Message) -> bool:
        error = message.error()
        is_complaint = error is not None and error.code() != KafkaError._PARTITION_EOF
        return is_complaint or (message.topic(), message.partition()) in self._read_here

    def _resume(self, consumer: Consumer | None, sources: Collection[UpstreamPartition]) -> None:
        if consumer is not None and sources:
            consumer.resume(topic_partitions(sources))
