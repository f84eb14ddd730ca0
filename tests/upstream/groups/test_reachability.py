"""Complaints raise a suspicion; a request that fails confirms it, one that succeeds ends it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException

from mesh.records.spans import TopicName
from mesh.upstream.engine import EngineEvent, GroupDown, GroupUp, ReadingDown, ReadingUp, SourceDown, SourceUp
from mesh.upstream.groups.descriptions import DescriptionUnavailable
from mesh.upstream.groups.reachability import PROBE_INTERVAL, Reachability
from mesh.upstream.problems import UpstreamProblem
from mesh.wire.client.groups import GroupDescription
from tests.upstream.harness import CLUSTER


class Bed:
    """A consumer whose requests succeed while `works`."""

    def __init__(self) -> None:
        self.told: list[EngineEvent] = []
        self.works = True
        self.probes = 0
        self.now = 0.0
        self.described: list[Future[GroupDescription]] = []
        self.reachability = Reachability(CLUSTER, {"group.id": "group"}, self.told.append, self.describe)

    def describe(self) -> Future[GroupDescription]:
        self.described.append(Future())
        return self.described[-1]

    def refused_with(self, assignor: str) -> None:
        """The group refuses our assignors, and tells its own."""
        self.reachability.suspect(KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL))
        self.probe()
        self.described[-1].set_result(GroupDescription("Stable", assignor, ()))
        self.probe()

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


def test_a_group_with_other_assignors_is_asked_for_them_and_not_waited_for() -> None:
    bed = Bed()
    bed.reachability.suspect(KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL))
    for _ in range(3):
        bed.probe()
        bed.reachability.suspect(KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL))
        assert not bed.reachability.check_assignor_switch(cooperative=True)
    (described,) = bed.described
    described.set_result(GroupDescription("Stable", "cooperative-sticky", ()))
    bed.probe()
    assert bed.reachability.check_assignor_switch(cooperative=True)
    bed.probe()
    assert not bed.reachability.check_assignor_switch(cooperative=False), "told once"
    assert len(bed.described) == 1
    assert bed.told == []


def test_an_assignor_that_we_do_not_have_is_told() -> None:
    bed = Bed()
    bed.refused_with("ours-alone")
    assert not bed.reachability.check_assignor_switch(cooperative=True)
    (told,) = bed.told
    assert isinstance(told, GroupDown)
    assert told.problem is UpstreamProblem.ASSIGNOR


def test_a_group_that_rebalances_or_is_not_described_is_asked_again_when_it_refuses_again() -> None:
    bed = Bed()
    bed.refused_with("")
    assert not bed.reachability.check_assignor_switch(cooperative=True)
    bed.reachability.suspect(KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL))
    bed.probe()
    bed.described[-1].set_exception(DescriptionUnavailable("no"))
    bed.probe()
    assert not bed.reachability.check_assignor_switch(cooperative=True)
    bed.refused_with("range")
    assert bed.reachability.check_assignor_switch(cooperative=False)
    assert len(bed.described) == 3
    assert bed.told == []


TOPIC_REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
GROUP_REFUSED = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
ORDERS, INVOICES = TopicName("orders"), TopicName("invoices")


def test_a_topic_that_may_not_be_read_is_no_problem_of_the_group() -> None:
    bed = Bed()
    for topic in (ORDERS, INVOICES, ORDERS):
        bed.reachability.suspect(TOPIC_REFUSED, topic)
    (down,) = bed.told
    assert isinstance(down, ReadingDown)
    assert (down.problem, down.reason) == (UpstreamProblem.NOT_AUTHORIZED, f"orders: {TOPIC_REFUSED.str()}")
    bed.reachability.stored()
    bed.reachability.answered()
    bed.reachability.records_arrived(ORDERS)
    assert bed.told == [down], "the other one may not be read still"
    bed.reachability.records_arrived(INVOICES)
    assert bed.told == [down, ReadingUp()]


def test_a_rebalance_does_not_say_that_a_topic_may_be_read() -> None:
    """librdkafka complains once. A topic that goes to another member brings no more reports here."""
    bed = Bed()
    bed.reachability.suspect(TOPIC_REFUSED, ORDERS)
    bed.reachability.assigned({ORDERS, INVOICES})
    assert len(bed.told) == 1
    bed.reachability.assigned({INVOICES})
    assert bed.told[1:] == [ReadingUp()]


def test_a_group_that_is_refused_is_no_problem_of_the_cluster() -> None:
    bed = Bed()
    bed.reachability.suspect(GROUP_REFUSED)
    bed.reachability.suspect(GROUP_REFUSED)
    down = GroupDown(GROUP_REFUSED.str(), UpstreamProblem.NOT_AUTHORIZED)
    assert bed.told == [down]
    bed.reachability.answered()
    assert bed.told == [down], "that it answers is another matter"
    bed.reachability.stored()
    assert bed.told == [down, GroupUp()]


def test_a_cluster_that_is_gone_is_told_though_the_group_was_refused_before() -> None:
    bed = Bed()
    bed.reachability.suspect(GROUP_REFUSED)
    bed.works = False
    bed.reachability.complain("late")
    bed.probe()
    assert bed.told[1:] == [SourceDown("late")]
    bed.works = True
    bed.probe()
    assert bed.told[2:] == [SourceUp()]
    bed.reachability.assigned({ORDERS})
    assert bed.told[3:] == [GroupUp()]


def test_what_another_process_took_over_does_not_come_back_by_a_commit() -> None:
    bed = Bed()
    bed.reachability.suspect(KafkaError(KafkaError.FENCED_INSTANCE_ID))
    assert bed.reachability.is_fenced
    bed.reachability.stored()
    assert bed.reachability.is_fenced
    bed.reachability.assigned({ORDERS})
    assert not bed.reachability.is_fenced


def test_a_refusal_of_no_topic_in_particular_is_only_written_down() -> None:
    """Nothing could show that it is over."""
    bed = Bed()
    bed.reachability.suspect(TOPIC_REFUSED)
    assert bed.told == []
