"""Partitions that belong to nobody are found once, by a static member, when its group is at rest."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition

from mesh.records.spans import TopicName
from mesh.upstream.orphans import INTERVAL, MOST_LOOKS, Orphans

TOPICS = frozenset({TopicName("orders")})


@dataclass
class Admin:
    """A group of one member, and a topic."""

    assigned: tuple[int, ...] = (0, 1)
    partitions: int = 2
    state: ConsumerGroupState = ConsumerGroupState.STABLE
    failure: KafkaError | None = None
    asked: int = 0
    answers: list[tuple[Future[Any], object]] = field(default_factory=list)

    def describe_consumer_groups(self, groups: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        self.asked += 1
        places = [TopicPartition("orders", number) for number in self.assigned]
        member = SimpleNamespace(assignment=SimpleNamespace(topic_partitions=places))
        return {groups[0]: self._future(SimpleNamespace(state=self.state, members=[member]))}

    def describe_topics(self, topics: object, request_timeout: float) -> dict[str, Future[Any]]:
        numbers = [SimpleNamespace(id=number) for number in range(self.partitions)]
        return {"orders": self._future(SimpleNamespace(name="orders", partitions=numbers))}

    def _future(self, result: object) -> Future[Any]:
        future: Future[Any] = Future()
        self.answers.append((future, result))
        return future

    def answer(self) -> None:
        for future, result in self.answers:
            if self.failure is not None:
                future.set_exception(KafkaException(self.failure))
            else:
                future.set_result(result)
        self.answers.clear()


def looked(admin: Admin, orphans: Orphans, looks: int = 5) -> int:
    """How often it said so."""
    found = 0
    for number in range(looks):
        for at in (0.0, 0.5):
            found += orphans.are_there(TOPICS, (admin.asked + number) * INTERVAL + at)
        admin.answer()
    return found + orphans.are_there(TOPICS, (admin.asked + looks) * INTERVAL)


def orphans_of(admin: Admin, instance_id: str | None = "mesh-1") -> Orphans:
    return Orphans(lambda: admin, "billing", instance_id)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(("partitions", "found"), [(2, 0), (3, 1)])
def test_it_looks_once(partitions: int, found: int) -> None:
    admin = Admin(partitions=partitions)
    assert looked(admin, orphans_of(admin)) == found
    assert admin.asked == 1


def test_a_dynamic_member_has_made_a_rebalance_by_joining() -> None:
    admin = Admin(partitions=3)
    assert looked(admin, orphans_of(admin, None)) == 0
    assert not admin.asked


def test_it_waits_while_the_group_rebalances() -> None:
    admin = Admin(partitions=3, state=ConsumerGroupState.PREPARING_REBALANCING)
    orphans = orphans_of(admin)
    assert looked(admin, orphans) == 0
    admin.state = ConsumerGroupState.STABLE
    assert looked(admin, orphans) == 1


def test_a_group_that_may_not_be_described_is_left_alone() -> None:
    admin = Admin(partitions=3, failure=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert looked(admin, orphans_of(admin), looks=5 * MOST_LOOKS) == 0
    assert admin.asked == MOST_LOOKS
