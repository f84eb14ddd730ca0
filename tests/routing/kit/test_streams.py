"""The mesh recognizes a member of Kafka Streams by its assignor, and requires all its topics at the home of its
group."""

from __future__ import annotations

from uuid import UUID

import pytest

from mesh.routing.kit.streams import may_be_of_streams, topic_elsewhere
from mesh.routing.moves.move import Location, Move
from mesh.routing.moves.move import Side as MovedSide
from mesh.routing.moves.names import MovedNames
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, write_tree
from tests.routing.kit.test_embedded import subscription
from tests.routing.kit.world import World
from tests.routing.unions import RENAMED, union_of


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
    body = write_tree(ApiKey.JOIN_GROUP, 5, Direction.REQUEST, joining("g", "orders"))
    assert may_be_of_streams(memoryview(body))
    assert not may_be_of_streams(
        write_tree(ApiKey.JOIN_GROUP, 5, Direction.REQUEST, joining("g", "orders", assignor="range"))
    )


@pytest.mark.parametrize(("at", "expected"), [(MovedSide.AWAY, "orders"), (MovedSide.HOME, None)])
def test_a_topic_that_was_moved_is_where_it_is_now(at: MovedSide, expected: str | None) -> None:
    move = Move("orders", UUID(int=7), 3, Location("eu", "orders"), Location("us", "orders"), at, False, (1, 2, 3))
    assert topic_elsewhere(joining("g", "orders"), MovedNames(union_of(RENAMED), [move])) == expected
