"""What stands in for confluent-kafka's messages and consumer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError, KafkaException, Message, TopicPartition


@dataclass
class FakeMessage:
    number: int
    content: bytes | None = b"value"
    name: bytes | None = None
    time: tuple[int, int] = (TIMESTAMP_CREATE_TIME, 1_000)
    fields: list[tuple[str, bytes | None]] | None = None
    place: tuple[str, int] = ("orders", 0)
    problem: KafkaError | None = None

    def __len__(self) -> int:
        return len(self.content or b"")

    def offset(self) -> int:
        return self.number

    def key(self) -> bytes | None:
        return self.name

    def value(self) -> bytes | None:
        return self.content

    def timestamp(self) -> tuple[int, int]:
        return self.time

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.fields

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def error(self) -> KafkaError | None:
        return self.problem


def message(number: int, **fields: Any) -> Message:
    return cast(Message, FakeMessage(number, **fields))


@dataclass
class FakeConsumer:
    """Keeps what it is told; answers with what a test has put in."""

    stored: dict[int, TopicPartition] = field(default_factory=dict)
    begin: int = 0
    end: int = 100
    failures: list[KafkaError] = field(default_factory=list)
    commits: list[list[TopicPartition]] = field(default_factory=list)
    assignments: list[dict[int, int]] = field(default_factory=list)
    sought: dict[int, int] = field(default_factory=dict)

    def _fail(self) -> None:
        if self.failures:
            raise KafkaException(self.failures.pop(0))

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assignments.append({each.partition: each.offset for each in partitions})

    def unassign(self) -> None:
        self.assignments.append({})

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        current = self.assignments[-1] if self.assignments else {}
        self.assignments.append({**current, **{each.partition: each.offset for each in partitions}})

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        gone = {each.partition for each in partitions}
        current = self.assignments[-1] if self.assignments else {}
        assert gone <= current.keys()
        self.assignments.append({number: at for number, at in current.items() if number not in gone})

    def seek(self, partition: TopicPartition) -> None:
        self.sought[partition.partition] = partition.offset

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._fail()
        return [
            self.stored.get(each.partition, TopicPartition(each.topic, each.partition, -1001)) for each in partitions
        ]

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [
            TopicPartition(each.topic, each.partition, {-1: self.end, -2: self.begin}[each.offset])
            for each in partitions
        ]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition] | None:
        self._fail()
        self.commits.append(offsets)
        return None if asynchronous else offsets

    @property
    def consumer(self) -> Consumer:
        return cast(Consumer, self)


def place(partition: int, offset: int = -1001, metadata: str | None = None) -> TopicPartition:
    if metadata is None:
        return TopicPartition("orders", partition, offset)
    return TopicPartition("orders", partition, offset, metadata)
