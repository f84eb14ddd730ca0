"""Which partitions librdkafka is not to bring records of: those the pool has paused, and all while they would only pile
up, or while others read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from mesh.records.spans import UpstreamPartition
from mesh.upstream.librdkafka.message_runs import size_of
from mesh.upstream.librdkafka.positions.assigned_positions import topic_partitions

TRICKLE_BYTES = 256 << 10


class Pausing:
    """Everything runs on the consumer's thread. reads: False for a member whose partitions others read: they are
    paused, but those it is told to read. None stands for a consumer that is not there."""

    def __init__(self, reads: bool) -> None:
        self._reads = reads
        self._read_all_the_same: set[tuple[str, int]] = set()
        self._paused: set[UpstreamPartition] = set()
        self._all_paused = False
        self._trickled = 0

    @property
    def is_reading(self) -> bool:
        """Whether records are to come at all."""
        return self._reads or bool(self._read_all_the_same)

    def assigned(self, consumer: Consumer | None, sources: Collection[UpstreamPartition]) -> None:
        """An assignment begins with nothing paused; what a cooperative one has kept may be."""
        if self._all_paused or self._paused:
            self._resume(consumer, sources)
        self._paused, self._all_paused, self._trickled = set(), False, 0
        if not self._reads and consumer is not None:
            self._read_all_the_same = set()
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
        """This one all the same, from there on, until the next assignment."""
        self._read_all_the_same.add((source.topic, source.partition))
        consumer.resume(topic_partitions([source]))
        consumer.seek(TopicPartition(source.topic, source.partition, position))

    def set_consuming(self, consumer: Consumer | None, consuming: bool, sources: Collection[UpstreamPartition]) -> None:
        self._trickled = 0
        if consuming and self._all_paused:
            self._all_paused = False
            self._resume(consumer, set(sources) - self._paused)

    def trickled(self, consumer: Consumer, message: Message, sources: Collection[UpstreamPartition]) -> None:
        """It came though nothing is consumed. Of too many of them all is paused, and what was prefetched goes."""
        self._trickled += size_of([message])
        if self._trickled > TRICKLE_BYTES and not self._all_paused:
            self._all_paused = True
            consumer.pause(topic_partitions(sources))

    def ours(self, messages: list[Message]) -> list[Message]:
        """Those that we are to read, and complaints about any."""
        return messages if self._reads else [each for each in messages if self._is_ours(each)]

    def _is_ours(self, message: Message) -> bool:
        error = message.error()
        is_complaint = error is not None and error.code() != KafkaError._PARTITION_EOF
        return is_complaint or (message.topic(), message.partition()) in self._read_all_the_same

    def _resume(self, consumer: Consumer | None, sources: Collection[UpstreamPartition]) -> None:
        if consumer is not None and sources:
            consumer.resume(topic_partitions(sources))
