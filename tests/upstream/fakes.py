"""Doubles of confluent-kafka's messages and consumer."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec

from mesh.upstream.admin import LazyAdmin
from mesh.upstream.librdkafka.positions.bounds import LATEST


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
class Unsaid:
    """A TopicPartition with an error, which only librdkafka can make."""

    topic: str
    partition: int
    error: KafkaError


@dataclass
class FakeAdmin:
    """Stands for a LazyAdmin, and for its client. begins, ends: by partition, by default 0 and 100; None: not answered
    yet."""

    begins: dict[int, int | KafkaError | None] = field(default_factory=dict)
    ends: dict[int, int | KafkaError | None] = field(default_factory=dict)
    asked: list[tuple[str, list[int]]] = field(default_factory=list)
    connected: bool = True
    waiting: list[tuple[dict[int, int | KafkaError | None], int, Future[ListOffsetsResultInfo]]] = field(
        default_factory=list
    )

    def client(self) -> FakeAdmin:
        return self

    def connect(self, now: float) -> bool:
        return self.connected

    def list_offsets(
        self, places: dict[TopicPartition, OffsetSpec], **_settings: object
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        which = "ends" if LATEST in places.values() else "begins"
        answers = self.ends if which == "ends" else self.begins
        self.asked.append((which, sorted(place.partition for place in places)))
        futures: dict[TopicPartition, Future[ListOffsetsResultInfo]] = {place: Future() for place in places}
        for place, future in futures.items():
            answers.setdefault(place.partition, 100 if which == "ends" else 0)
            self.waiting.append((answers, place.partition, future))
        self.answer()
        return futures

    def answer(self) -> None:
        """Answers with the current state."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            answers, partition, future = each
            match answers[partition]:
                case None:
                    self.waiting.append(each)
                case int(offset):
                    future.set_result(ListOffsetsResultInfo(offset, -1, -1))
                case error:
                    future.set_exception(KafkaException(error))

    @property
    def lazy(self) -> LazyAdmin:
        return cast(LazyAdmin, self)


@dataclass
class FakeConsumer:
    """Keeps its calls; answers as a test has prepared."""

    stored: dict[int, TopicPartition] = field(default_factory=dict)
    unsaid: dict[int, KafkaError] = field(default_factory=dict)
    """Partitions for which the coordinator reports no commit."""
    asked: list[list[int]] = field(default_factory=list)
    """The partitions of each request."""
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

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition | Unsaid]:
        self.asked.append([each.partition for each in partitions])
        self._fail()
        return [
            Unsaid(each.topic, each.partition, self.unsaid[each.partition])
            if each.partition in self.unsaid
            else self.stored.get(each.partition, TopicPartition(each.topic, each.partition, -1001))
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
