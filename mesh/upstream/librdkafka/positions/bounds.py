"""Looks up the bounds of logs without blocking: a partition without an answer delays neither the others nor the thread.

A missing leader is reported at once; a hanging one takes the whole timeout of a request (measured, 2.16).
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
"""Seconds until a cluster that has never answered counts as unreachable."""
EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]

Found: TypeAlias = Mapping[UpstreamPartition, int | KafkaError]
"""An offset of each partition, or the reason why there is none."""
Answers: TypeAlias = Mapping[UpstreamPartition, Future[ListOffsetsResultInfo]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of logs; under read_committed the ends are last stable offsets. If a time was given, `begins` lacks
    partitions without a record of that time or later."""

    begins: Found
    ends: Found


class LogBounds:
    """A request for the bounds of logs, one at a time, on the consumer's thread."""

    def __init__(self, admin: LazyAdmin, isolation: str) -> None:
        self._admin = admin
        self._isolation = IsolationLevel[isolation.upper()]
        self._asked: tuple[Collection[UpstreamPartition], Collection[UpstreamPartition]] = ((), ())
        self._since: int | None = None
        self._asked_at = 0.0
        self._answers: tuple[Answers, Answers] | None = None

    def ask(
        self,
        begins: Collection[UpstreamPartition],
        ends: Collection[UpstreamPartition],
        now: float,
        since: int | None = None,
    ) -> None:
        """Begins a new request, and forgets earlier answers. since: look up the first records of that time on, in ms
        since 1970, instead of the starts of logs."""
        self._asked, self._since, self._asked_at, self._answers = (begins, ends), since, now, None

    def answer(self, now: float) -> Bounds | None:
        """Returns the requested bounds. None until each is known, or known to be unavailable."""
        begins, ends = self._asked
        if not begins and not ends:
            return Bounds({}, {})
        if self._answers is None and self._admin.connect(now):
            begin = EARLIEST if self._since is None else OffsetSpec.for_timestamp(self._since)
            self._answers = self._list(begins, begin), self._list(ends, LATEST)
        if self._answers is None:
            if now - self._asked_at < CONNECT_TIMEOUT:
                return None
            nobody = KafkaError(KafkaError._TIMED_OUT)
            return Bounds(dict.fromkeys(begins, nobody), dict.fromkeys(ends, nobody))
        if not all(answer.done() for answers in self._answers for answer in answers.values()):
            return None
        found_begins, found_ends = self._answers
        return Bounds(
            {
                source: offset_in(each)
                for source, each in found_begins.items()
                if self._since is None or not _has_nothing(each)
            },
            {source: offset_in(each) for source, each in found_ends.items()},
        )

    def _list(self, sources: Collection[UpstreamPartition], which: OffsetSpec) -> Answers:
        if not sources:
            return {}
        asked = {TopicPartition(source.topic, source.partition): source for source in sources}
        answers = self._admin.client().list_offsets(
            dict.fromkeys(asked, which), isolation_level=self._isolation, request_timeout=REQUEST_TIMEOUT
        )
        return {asked[place]: answer for place, answer in answers.items()}


def offset_in(answer: Future[ListOffsetsResultInfo]) -> int | KafkaError:
    """Returns the offset in an answer, or its error."""
    try:
        offset = int(answer.result().offset)
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        return error
    # librdkafka returns a negative offset, not an error, when a broker does not answer (2.16).
    return offset if offset >= 0 else KafkaError(KafkaError._TIMED_OUT)


def _has_nothing(answer: Future[ListOffsetsResultInfo]) -> bool:
    """Returns whether there is no record of the given time or later."""
    return answer.exception() is None and answer.result().offset < 0
