"""The subscriptions and assignments of a classic group: translated to the names of its cluster, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_assignment.v3.data import TopicPartition as AssignedPartitions
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription as OldestSubscription
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription, TopicPartition
from kio.schema.types import TopicName
from kio.static.primitive import i32

from mesh.routing.kit.embedded import renamed_assignment, renamed_subscription, with_other_topics
from mesh.routing.kit.merge import merge
from mesh.routing.kit.split import split
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree
from tests.routing.kit.world import US, WORLD, as_sent
from tests.wire.entities import decode, encode

OTHER = {"us.a": "a", "us.b": "b"}
BACK = {name: called for called, name in OTHER.items()}


def subscription(*topics: str, rack: str | None = "r1") -> bytes:
    owned = tuple(TopicPartition(topic=TopicName(name), partitions=(i32(1), i32(2))) for name in topics)
    return b"\0\x03" + encode(
        ConsumerProtocolSubscription(
            topics=topics, user_data=b"mine", owned_partitions=owned, generation_id=i32(7), rack_id=rack
        )
    )


def assignment(*topics: str) -> bytes:
    assigned = tuple(AssignedPartitions(topic=TopicName(name), partitions=(i32(0),)) for name in topics)
    return b"\0\x03" + encode(ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None))


def test_names_are_others_and_all_else_stays() -> None:
    assert renamed_subscription(subscription("us.a", "us.b"), OTHER.get) == subscription("a", "b")
    assert renamed_subscription(subscription("us.a", rack=None), OTHER.get) == subscription("a", rack=None)
    assert renamed_assignment(memoryview(assignment("us.a")), OTHER.get) == assignment("a")
    oldest = [b"\0\0" + encode(OldestSubscription(topics=topics, user_data=None)) for topics in (("us.a",), ("a",))]
    assert renamed_subscription(oldest[0], OTHER.get) == oldest[1]


def test_what_has_no_other_name_is_left_out() -> None:
    assert renamed_subscription(subscription("us.a", "elsewhere"), OTHER.get) == subscription("a")
    assert renamed_assignment(assignment("elsewhere", "us.b"), OTHER.get) == assignment("b")


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"\0\x04", b"\xff\xff", b"\0\x01\0\0\0\x09", assignment("us.a") + b"!"]
)
def test_bytes_of_another_form_stay(content: bytes) -> None:
    assert renamed_assignment(content, OTHER.get) == content
    assert renamed_subscription(content[:5], OTHER.get) == content[:5]


@given(st.binary(max_size=40))
def test_any_bytes_can_be_there(content: bytes) -> None:
    renamed_subscription(content, OTHER.get)
    renamed_assignment(b"\0\1" + content, OTHER.get)


def through(api_key: ApiKey, version: int, request: Tree, answer: Tree) -> tuple[Tree, Tree]:
    """The request to the home, and the answer to the client."""
    division = split(api_key, version, as_sent(api_key, version, Direction.REQUEST, request), WORLD, US)
    merged = merge(division, {US: as_sent(api_key, version, Direction.RESPONSE, answer)})
    return division.pieces[US].request, as_sent(api_key, version, Direction.RESPONSE, merged)


@pytest.mark.parametrize("version", [0, 9])
def test_members_join_in_the_names_of_their_home(version: int) -> None:
    request: Any = {"group_id": "us.g", "protocol_type": "consumer"}
    request["protocols"] = [{"name": "range", "metadata": subscription("us.a")}]
    answer: Any = {"members": [{"member_id": "m", "metadata": subscription("b")}]}
    asked, told = through(ApiKey.JOIN_GROUP, version, request, answer)
    assert asked["protocols"][0]["metadata"] == subscription("a")
    assert told["members"][0]["metadata"] == subscription("us.b")
    other, unchanged = through(ApiKey.JOIN_GROUP, version, request | {"protocol_type": "connect"}, answer)
    assert other["protocols"] == request["protocols"]
    assert unchanged["members"][0]["metadata"] == subscription("b")


@pytest.mark.parametrize("version", [0, 5])
def test_assignments_pass_in_the_names_of_the_home(version: int) -> None:
    request: Any = {"group_id": "us.g", "protocol_type": "consumer"}
    request["assignments"] = [{"member_id": "m", "assignment": assignment("us.a")}]
    asked, told = through(ApiKey.SYNC_GROUP, version, request, {"assignment": assignment("b")})
    assert asked["assignments"][0]["assignment"] == assignment("a")
    assert told["assignment"] == assignment("us.b")


def test_members_are_described_with_the_names_of_clients() -> None:
    member = {"member_metadata": subscription("a"), "member_assignment": assignment("b")}
    groups = [{"group_id": "us.g", "protocol_type": each, "members": [member]} for each in ("consumer", "connect")]
    _, told = through(ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["us.g"]}, {"groups": groups})
    consumers, connect = (group["members"][0] for group in told["groups"])
    assert consumers["member_metadata"] == subscription("us.a")
    assert consumers["member_assignment"] == assignment("us.b")
    assert connect["member_metadata"] == subscription("a")


def test_a_cluster_whose_names_are_the_clients_gets_the_bytes_as_they_came() -> None:
    content = assignment("eu.a", "us.a")
    request = {"group_id": "eu.g", "assignments": [{"member_id": "m", "assignment": content}]}
    division = split(ApiKey.SYNC_GROUP, 0, as_sent(ApiKey.SYNC_GROUP, 0, Direction.REQUEST, request), WORLD, US)
    ((piece),) = division.pieces.values()
    assert piece.request["assignments"][0]["assignment"] == content


def test_kio_reads_what_is_written() -> None:
    read = decode(ConsumerProtocolSubscription, renamed_subscription(subscription("us.a"), OTHER.get)[2:])
    assert (read.topics, read.user_data, read.generation_id, read.rack_id) == (("a",), b"mine", 7, "r1")
    assert renamed_subscription(renamed_subscription(subscription("us.a"), OTHER.get), BACK.get) == subscription("us.a")


def test_other_messages_stay() -> None:
    message: Tree = {"group_id": "g"}
    assert with_other_topics(ApiKey.HEARTBEAT, Direction.REQUEST, message, None, OTHER.get) is message
