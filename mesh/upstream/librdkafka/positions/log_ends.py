"""Checks the ends of the logs of assigned partitions, also of those that are not read now.

librdkafka learns them with the records: its values are old while its queue is full or a partition is paused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from confluent_kafka import IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo

from mesh.records.spans import UpstreamPartition
from mesh.upstream.engine import HighWatermarks
from mesh.upstream.librdkafka.positions.bounds import LATEST, REQUEST_TIMEOUT, offset_in

INTERVAL = 1.0


class LogEnds:
    """The ends of the logs, requested every `INTERVAL` seconds without blocking. With read_committed they are last
    stable offsets.

    complain: called with the error of a partition without an answer.
    """

    def __init__(
        self,
        admin: Callable[[], AdminClient],
        isolation: str,
        put: Callable[[HighWatermarks], None],
        complain: Callable[[KafkaError], None],
    ) -> None:
        self._admin = admin
        self._isolation = IsolationLevel[isolation.upper()]
        self._put = put
        self._complain = complain
        self._answers: dict[UpstreamPartition, Future[ListOffsetsResultInfo]] = {}
        self._reported: Mapping[UpstreamPartition, int] = {}
        self._resets = 0
        self._ask_at = 0.0
        self._wanted = 0
        """The number of the last look."""
        self._asked = 0
        """The number of the last look before the last request."""
        self._looked = 0
        """The same of the last report."""

    def look(self, number: int) -> None:
        """Makes the next `poll` ask, and report the answer even if nothing has changed. number: names it in the
        report."""
        self._wanted = number

    def poll(self, sources: Collection[UpstreamPartition], now: float) -> None:
        """Reports the ends of all these partitions, if one has changed or a look waits for them."""
        if self._answers and all(answer.done() for answer in self._answers.values()):
            answers, self._answers = self._answers, {}
            self._report({source: answers[source] for source in sources if source in answers})
        if sources and not self._answers and (now >= self._ask_at or self._wanted > self._asked):
            self._ask_at = now + INTERVAL
            self._asked = self._wanted
            asked = {TopicPartition(source.topic, source.partition): source for source in sources}
            latest = dict.fromkeys(asked, LATEST)
            futures = self._admin().list_offsets(
                latest, isolation_level=self._isolation, request_timeout=REQUEST_TIMEOUT
            )
            self._answers = {asked[place]: answer for place, answer in futures.items()}

    def forget(self, resets: int | None = None) -> None:
        """Makes the next answer count as changed, since the receiver has forgotten the ends. resets: the number of
        resets and truncations noticed elsewhere, if that is the reason."""
        self._reported, self._answers = {}, {}
        self._ask_at = 0.0
        self._resets = self._resets if resets is None else resets

    def _report(self, answers: Mapping[UpstreamPartition, Future[ListOffsetsResultInfo]]) -> None:
        ends: dict[UpstreamPartition, int] = {}
        problem: KafkaError | None = None
        for source, answer in answers.items():
            end = offset_in(answer)
            if isinstance(end, int):
                ends[source] = end
            else:
                problem = end
        if problem is not None:
            self._complain(problem)
        if ends and (ends != self._reported or self._asked > self._looked):
            self._reported, self._looked = ends, self._asked
            self._put(HighWatermarks(ends, self._resets, self._asked))
