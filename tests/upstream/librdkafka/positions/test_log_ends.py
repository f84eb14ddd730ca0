"""The ends of logs: reported together, when one has changed, and never for partitions of others."""

from __future__ import annotations

from concurrent.futures import Future
from typing import cast

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec

from mesh.records.spans import UpstreamPartition
from mesh.upstream.engine import HighWatermarks
from mesh.upstream.librdkafka.positions.log_ends import INTERVAL, LogEnds
from tests.integration.kafka import KafkaCluster
from tests.upstream.harness import engine, new_name, produce, run, source

BOTH = [source("orders", 0), source("orders", 1)]


class Bed:
    """An admin client that answers when a test says so."""

    def __init__(self) -> None:
        self.told: list[dict[UpstreamPartition, int]] = []
        self.numbers: list[int] = []
        self.complaints: list[int] = []
        self.asked: list[dict[int, Future[ListOffsetsResultInfo]]] = []
        self.log_ends = LogEnds(
            lambda: cast(AdminClient, self),
            "read_committed",
            self._put,
            lambda error: self.complaints.append(error.code()),
        )
        self.now = 0.0

    def _put(self, event: HighWatermarks) -> None:
        self.told.append(dict(event.offsets))
        self.numbers.append(event.looked)

    def list_offsets(
        self, places: dict[TopicPartition, OffsetSpec], **_settings: object
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        answers: dict[TopicPartition, Future[ListOffsetsResultInfo]] = {place: Future() for place in places}
        self.asked.append({place.partition: answer for place, answer in answers.items()})
        return answers

    def look(self, sources: list[UpstreamPartition] = BOTH, later: float = INTERVAL) -> None:
        self.now += later
        self.log_ends.poll(sources, self.now)

    def answer(self, *ends: int | KafkaError) -> None:
        for (_, answer), end in zip(sorted(self.asked[-1].items()), ends, strict=False):
            if isinstance(end, int):
                answer.set_result(ListOffsetsResultInfo(end, -1, -1))
            else:
                answer.set_exception(KafkaException(end))


def test_told_when_one_has_changed() -> None:
    bed = Bed()
    for ends in [(5, 7), (5, 7), (5, 8)]:
        bed.look()
        bed.answer(*ends)
        bed.look(later=0)
    assert bed.told == [dict(zip(BOTH, ends, strict=True)) for ends in [(5, 7), (5, 8)]]
    bed.log_ends.forget()
    bed.look()
    bed.answer(5, 8)
    bed.look(later=0)
    assert bed.told[2:] == [dict(zip(BOTH, (5, 8), strict=True))]


def test_a_look_is_answered_by_a_request_that_began_after_it() -> None:
    bed = Bed()
    bed.look()
    bed.log_ends.look(1)
    bed.answer(5, 7)
    bed.look(later=0)
    assert bed.numbers == [0]
    bed.answer(5, 7)
    bed.look(later=0)
    assert bed.numbers == [0, 1], "reported although nothing has changed"
    bed.look(later=0.1)
    assert len(bed.asked) == 2


def test_a_look_whose_answers_were_forgotten_is_asked_again() -> None:
    bed = Bed()
    bed.log_ends.look(1)
    bed.look()
    bed.answer(5, 7)
    bed.log_ends.forget(resets=1)
    bed.look(later=0)
    bed.answer(6, 7)
    bed.look(later=0)
    assert (bed.numbers, bed.told) == ([1], [dict(zip(BOTH, (6, 7), strict=True))])


def test_one_request_at_a_time_and_one_a_second() -> None:
    bed = Bed()
    bed.look()
    bed.look(later=INTERVAL * 5)
    bed.answer(5)  # one of two
    bed.look()
    assert (len(bed.asked), bed.told) == (1, [])
    bed.asked[-1][1].set_result(ListOffsetsResultInfo(7, -1, -1))
    bed.look(later=0)
    bed.answer(5, 7)
    bed.look(later=INTERVAL / 2)
    assert len(bed.asked) == 2


def test_what_was_revoked_in_between_is_not_told() -> None:
    bed = Bed()
    bed.look()
    bed.answer(5, 7)
    bed.look(BOTH[1:])
    assert bed.told == [{BOTH[1]: 7}]


@pytest.mark.parametrize("nothing", [KafkaError(KafkaError._TIMED_OUT), OFFSET_INVALID])
def test_what_was_not_answered_is_a_complaint(nothing: int | KafkaError) -> None:
    bed = Bed()
    bed.look()
    bed.answer(5, nothing)
    bed.look()
    assert (bed.told, bed.complaints) == ([{BOTH[0]: 5}], [KafkaError._TIMED_OUT])


def test_told_while_nothing_is_consumed(kafka: KafkaCluster) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, 2)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic) as running:
            running.engine.set_consuming(False)
            await running.assigned()
            produce(kafka.bootstrap_servers, topic, 3_000, partition=1)
            ends = {source(topic, 0): 0, source(topic, 1): 3_000}
            await running.until(lambda: HighWatermarks(ends) in running.events)
            assert len(running.records(topic, 1)) < 100

    run(test)
