"""Which members a rule matches."""

from __future__ import annotations

import pytest

from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.ids import GroupId
from mesh.pool.common.sharing import ClientPattern, LimitRule, Sharing, TopicPriority, WeightRule
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.security.principals import user

CLIENT = ClientIdentity("canary-1", "10.0.0.1", user("alice"))


@pytest.mark.parametrize(
    ("client_id", "principal", "matches"),
    [
        (None, None, True),
        ("canary-*", None, True),
        ("canary", None, False),
        ("CANARY-*", None, False),
        (None, "User:a*", True),
        ("canary-?", "User:bob", False),
    ],
)
def test_clients(client_id: str | None, principal: str | None, matches: bool) -> None:
    assert ClientPattern(client_id, principal).matches(CLIENT) is matches


def test_the_first_weight_and_all_limits() -> None:
    first, second = WeightRule(ClientPattern("canary-*"), 2.0), WeightRule(ClientPattern(), 3.0)
    limits = LimitRule(group="b*"), LimitRule(group="billing"), LimitRule(group="other")
    sharing = Sharing((first, second), limits)
    assert sharing.weight_of(CLIENT) is first
    assert Sharing((WeightRule(ClientPattern("x")),)).weight_of(CLIENT) is None
    assert sharing.limits_of(GroupId("billing")) == limits[:2]


def test_priorities_of_topics() -> None:
    eu = ClusterName("eu")
    sharing = Sharing(topics=(TopicPriority(eu, "alerts", False, 2), TopicPriority(eu, "al", True, 1)))
    found = [
        sharing.topic_priority(UpstreamPartition(ClusterName(cluster), TopicName(topic), 0))
        for cluster, topic in (("eu", "alerts"), ("eu", "alerts.old"), ("eu", "orders"), ("us", "alerts"))
    ]
    assert found == [2, 1, 0, 0]
