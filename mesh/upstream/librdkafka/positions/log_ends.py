"""How far the logs of assigned partitions go, also of those nobody reads at the moment.

What librdkafka remembers of it comes with the records: it is old while its queue is full or a partition is paused.
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
    """Asks every `INTERVAL` seconds, and waits for nothing. With read_committed it is told the last stable offsets.

    complain: told why a partition was not answered for.
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
        self._told: Mapping[UpstreamPartition, int] = {}
        self._resets = 0
        self._ask_at = 0.0

    def look(self, sources: Collection[UpstreamPartition], now: float) -> None:
        """Tell the ends of these, all of them, if one is another than before."""
        if self._answers and all(answer.done() for answer in self._answers.values()):
            answers, self._answers = self._answers, {}
            self._tell({source: answers[source] for source in sources if source in answers})
        if sources and not self._answers and now >= self._ask_at:
            self._ask_at = now + INTERVAL
            asked = {TopicPartition(source.topic, source.partition): source for source in sources}
            latest = dict.fromkeys(asked, LATEST)
            futures = self._admin().list_offsets(
                latest, isolation_level=self._isolation, request_timeout=REQUEST_TIMEOUT
            )
            self._answers = {asked[place]: answer for place, answer in futures.items()}

    def forget(self, resets: int | None = None) -> None:
        """Tell them again though they are the same; whoever was told knows them no more. resets: how many others have
        noticed by now, if that is why."""
        self._told, self._answers = {}, {}
        self._resets = self._resets if resets is None else resets

    def _tell(self, answers: Mapping[UpstreamPartition, Future[ListOffsetsResultInfo]]) -> None:
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
        if ends and ends != self._told:
            self._told = ends
            self._put(HighWatermarks(ends, self._resets))
