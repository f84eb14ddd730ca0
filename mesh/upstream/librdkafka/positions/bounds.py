"""Where logs begin and end, asked without waiting: one partition that nobody answers for keeps no other from its
answer, and the thread that asks from nothing.

A leader that is missing is told at once; one that hangs costs all of the time that a request has (measured, 2.16).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeAlias

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec

from mesh.records.spans import UpstreamPartition
from mesh.upstream.admin import LazyAdmin

REQUEST_TIMEOUT: Final = 3.0
CONNECT_TIMEOUT: Final = 5.0
"""Seconds until a cluster that has never answered is taken for one that does not."""
EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]

Found: TypeAlias = Mapping[UpstreamPartition, int | KafkaError]
"""An offset of each partition, or why there is none."""
Answers: TypeAlias = Mapping[UpstreamPartition, Future[ListOffsetsResultInfo]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where the logs begin that this was asked of, and where those end: under read_committed, last stable offsets."""

    begins: Found
    ends: Found


class LogBounds:
    """One question at a time, on the consumer's thread."""

    def __init__(self, admin: LazyAdmin, isolation: str) -> None:
        self._admin = admin
        self._isolation = IsolationLevel[isolation.upper()]
        self._asked: tuple[Collection[UpstreamPartition], Collection[UpstreamPartition]] = ((), ())
        self._asked_at = 0.0
        self._answers: tuple[Answers, Answers] | None = None

    def ask(self, begins: Collection[UpstreamPartition], ends: Collection[UpstreamPartition], now: float) -> None:
        """Forgets what was asked before."""
        self._asked, self._asked_at, self._answers = (begins, ends), now, None

    def answer(self, now: float) -> Bounds | None:
        """None until all of it is known, or it is known that it will not be."""
        begins, ends = self._asked
        if not begins and not ends:
            return Bounds({}, {})
        if self._answers is None and self._admin.connect(now):
            self._answers = self._list(begins, EARLIEST), self._list(ends, LATEST)
        if self._answers is None:
            if now - self._asked_at < CONNECT_TIMEOUT:
                return None
            nobody = KafkaError(KafkaError._TIMED_OUT)
            return Bounds(dict.fromkeys(begins, nobody), dict.fromkeys(ends, nobody))
        if not all(answer.done() for answers in self._answers for answer in answers.values()):
            return None
        return Bounds(*({source: offset_in(each) for source, each in answers.items()} for answers in self._answers))

    def _list(self, sources: Collection[UpstreamPartition], which: OffsetSpec) -> Answers:
        if not sources:
            return {}
        asked = {TopicPartition(source.topic, source.partition): source for source in sources}
        answers = self._admin.client().list_offsets(
            dict.fromkeys(asked, which), isolation_level=self._isolation, request_timeout=REQUEST_TIMEOUT
        )
        return {asked[place]: answer for place, answer in answers.items()}


def offset_in(answer: Future[ListOffsetsResultInfo]) -> int | KafkaError:
    """Of an answer that is there."""
    try:
        offset = int(answer.result().offset)
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        return error
    # Below 0 is what librdkafka answers when a broker does not, instead of an error (2.16).
    return offset if offset >= 0 else KafkaError(KafkaError._TIMED_OUT)
