"""Complaints raise a suspicion; a request that fails confirms it, one that succeeds ends it."""

from __future__ import annotations

from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException

from mesh.records.spans import TopicName
from mesh.upstream.engine import EngineEvent, SourceDown, SourceUp
from mesh.upstream.reachability import PROBE_INTERVAL, Reachability
from tests.upstream.harness import CLUSTER


class Bed:
    """A consumer whose requests succeed while `works`."""

    def __init__(self) -> None:
        self.told: list[EngineEvent] = []
        self.works = True
        self.probes = 0
        self.now = 0.0
        self.reachability = Reachability(CLUSTER, {"group.id": "group"}, self.told.append)

    def list_topics(self, topic: str, timeout: float) -> None:
        self.probes += 1
        if not self.works:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def probe(self, later: float = PROBE_INTERVAL) -> list[EngineEvent]:
        self.now += later
        self.reachability.probe(cast(Consumer, self), {TopicName("orders")}, self.now)
        return self.told


def test_nothing_is_asked_without_a_suspicion() -> None:
    bed = Bed()
    assert bed.probe() == []
    assert bed.probes == 0


def test_a_complaint_that_a_request_does_not_confirm_is_told_to_nobody() -> None:
    bed = Bed()
    bed.reachability.complain("late")
    assert bed.reachability.is_suspected
    assert bed.probe() == []
    assert not bed.reachability.is_suspected


def test_told_once_until_it_works_again() -> None:
    bed = Bed()
    bed.works = False
    bed.reachability.complain("late")
    bed.reachability.complain("later")
    bed.probe()
    bed.probe(later=PROBE_INTERVAL / 2)
    assert bed.probe() == [SourceDown("late")]
    assert bed.probes == 2
    bed.works = True
    bed.probe()
    assert bed.probe() == [SourceDown("late"), SourceUp()]
    assert bed.probes == 3


def test_only_what_says_that_nobody_answers_is_a_complaint() -> None:
    bed = Bed()
    bed.reachability.unanswered(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert not bed.reachability.is_suspected
    bed.reachability.unanswered(KafkaError(KafkaError._TIMED_OUT))
    assert bed.reachability.is_suspected
