"""A member of Kafka Streams is told by its assignor, and its topics are all to be at the home of its group."""

from __future__ import annotations

import pytest

from mesh.routing.kit.streams import may_be_of_streams, topic_elsewhere
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.trees import Tree, write_tree
from tests.routing.kit.test_embedded import subscription
from tests.routing.kit.world import World


def joining(group: str, *topics: str, assignor: str = "stream", protocol_type: str = "consumer") -> Tree:
    return {
        "group_id": group,
        "session_timeout_ms": 1,
        "rebalance_timeout_ms": 1,
        "member_id": "",
        "protocol_type": protocol_type,
        "protocols": [{"name": assignor, "metadata": subscription(*topics)}],
    }


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        (joining("g", "eu.orders", "eu.payments"), None),
        (joining("g", "eu.orders", "us.orders", "us.more"), "us.orders"),
        (joining("us.g", "us.orders"), None),
        (joining("us.g", "us.orders", "eu.orders"), "eu.orders"),
        (joining("g", "nowhere"), "nowhere"),
        (joining("g", "eu.orders", "us.orders", assignor="range"), None),
        (joining("g", "us.orders", protocol_type="connect"), None),
        (joining("g"), None),
    ],
)
def test_a_topic_that_is_elsewhere(join: Tree, expected: str | None) -> None:
    assert topic_elsewhere(join, World()) == expected


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\x09aaaa", b"\0\0\0\0\0\2\0\3abc", b"\0\0\xff\xff\xff\xff"])
def test_what_is_no_subscription_has_no_topics(metadata: bytes) -> None:
    join = joining("g")
    join["protocols"][0]["metadata"] = metadata
    assert topic_elsewhere(join, World()) is None


def test_only_what_names_the_assignor_is_read() -> None:
    body = write_tree(ApiKey.JOIN_GROUP, 5, Side.REQUEST, joining("g", "orders"))
    assert may_be_of_streams(memoryview(body))
    assert not may_be_of_streams(
        write_tree(ApiKey.JOIN_GROUP, 5, Side.REQUEST, joining("g", "orders", assignor="range"))
    )
