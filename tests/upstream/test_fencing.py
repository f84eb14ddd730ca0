"""Who was fenced joins again when nobody else holds its group.instance.id."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mesh.upstream.fencing import BLIND, INTERVAL, Fence


class Group:
    """An admin client that describes one group, when a test says so."""

    def __init__(self) -> None:
        self.asked: list[Future[Any]] = []
        self.fence = Fence(lambda: cast(AdminClient, self), "group", "ours")
        self.fence.fenced(0.0)

    def describe_consumer_groups(self, groups: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        assert groups == ["group"]
        self.asked.append(Future())
        return {"group": self.asked[-1]}

    def look(self, now: float, *instance_ids: str | None, error: int | None = None) -> bool:
        """Ask, answer, and look at the answer."""
        before = len(self.asked)
        assert not self.fence.is_open(now)
        assert len(self.asked) == before + 1, "it asks"
        assert not self.fence.is_open(now), "and does not wait for the answer"
        if error is not None:
            self.asked[-1].set_exception(KafkaException(KafkaError(error)))
        else:
            members = [SimpleNamespace(group_instance_id=each) for each in instance_ids]
            self.asked[-1].set_result(SimpleNamespace(members=members))
        return self.fence.is_open(now)


def test_it_stays_out_while_another_holds_the_id() -> None:
    group = Group()
    assert not group.fence.is_open(INTERVAL / 2)
    assert not group.asked
    assert not group.look(INTERVAL, "another", "ours")
    assert not group.fence.is_open(INTERVAL * 1.5)
    assert len(group.asked) == 1
    assert group.look(INTERVAL * 2, "another", None)


def test_a_group_without_members_is_open() -> None:
    assert Group().look(INTERVAL)


def test_where_groups_may_not_be_described_it_tries_after_a_while() -> None:
    group = Group()
    assert not group.look(INTERVAL, error=KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert group.look(BLIND, error=KafkaError.GROUP_AUTHORIZATION_FAILED)
