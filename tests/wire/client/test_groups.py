"""The members of a group: the mesh's own server side reads our requests, and our decoder kio's answers."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from io import BytesIO
from struct import Struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from mesh.wire.apis import ApiKey
from mesh.wire.client import groups
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.groups import FoundCoordinator, GroupAnswer, GroupDescription, GroupMember
from mesh.wire.client.messages import Broker, VersionRange
from mesh.wire.decoder import decode_request
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import DescribeGroupsRequest, FindCoordinatorRequest
from mesh.wire.reader import Cursor

_INT16, _INT32 = Struct(">h"), Struct(">i")
VERSIONS_OF_DESCRIBE = range(groups.HIGHEST_DESCRIBE_GROUPS + 1)
VERSIONS_OF_FIND = range(groups.HIGHEST_FIND_COORDINATOR + 1)


def assignment(topics: dict[str, list[int]], version: int = 1, tail: bytes = b"\xff\xff\xff\xff") -> bytes:
    """A ConsumerProtocolAssignment. tail: the assignor's own bytes, or null."""
    body = _INT16.pack(version) + _INT32.pack(len(topics))
    for topic, partitions in topics.items():
        body += _INT16.pack(len(topic)) + topic.encode() + _INT32.pack(len(partitions))
        body += b"".join(map(_INT32.pack, partitions))
    return body + tail


def answered(request: ClientRequest, response: Any) -> ClientResponse:
    buffer = BytesIO()
    entity_writer(type(response))(buffer, response)
    return ClientResponse(request, memoryview(bytearray(buffer.getvalue())), 0)


def description(version: int, members: dict[str | None, bytes], kind: str = "consumer", error: int = 0) -> Any:
    """kio's answer. members: their assignments, by instance id."""
    schema: Any = import_module(f"kio.schema.describe_groups.v{version}.response")
    described = tuple(
        schema.DescribedGroupMember(
            member_id="m",
            client_id="c",
            client_host="/h",
            member_metadata=b"subscription",
            member_assignment=assigned,
            **({"group_instance_id": instance_id} if version >= groups.FIRST_WITH_INSTANCE_IDS else {}),
        )
        for instance_id, assigned in members.items()
    )
    group = schema.DescribedGroup(
        error_code=ErrorCode(error),
        group_id="billing",
        group_state="Stable",
        protocol_type=kind,
        protocol_data="range",
        members=described,
    )
    return schema.DescribeGroupsResponse(groups=(group,), **({"throttle_time": timedelta(0)} if version else {}))


def body_of(request: ClientRequest) -> bytes:
    return b"".join(map(bytes, request.body))


@pytest.mark.parametrize("version", VERSIONS_OF_FIND)
def test_requests_for_a_coordinator(version: int) -> None:
    request = groups.find_coordinator_request("größe", VersionRange(0, version))
    assert request.api_version == version
    read = decode_request(ApiKey.FIND_COORDINATOR, version, Cursor(body_of(request)))
    assert isinstance(read, FindCoordinatorRequest)
    assert (read.coordinator_keys, read.key_type) == (("größe",), 0)


@pytest.mark.parametrize("version", VERSIONS_OF_DESCRIBE)
def test_requests_for_a_description(version: int) -> None:
    request = groups.describe_group_request("größe", VersionRange(0, version))
    assert request.api_version == version
    read = decode_request(ApiKey.DESCRIBE_GROUPS, version, Cursor(body_of(request)))
    assert read == DescribeGroupsRequest(groups=("größe",))


@pytest.mark.parametrize(("served", "find", "describe"), [(None, 0, 0), (VersionRange(0, 99), 2, 5)])
def test_versions_are_those_that_both_sides_know(served: VersionRange | None, find: int, describe: int) -> None:
    assert groups.find_coordinator_request("g", served).api_version == find
    assert groups.describe_group_request("g", served).api_version == describe


def test_golden_bytes() -> None:
    """For the oldest and the newest version."""
    old, new = (groups.describe_group_request("ab", VersionRange(0, version)) for version in (0, 5))
    assert (body_of(old), old.is_flexible) == (b"\0\0\0\1\0\2ab", False)
    assert (body_of(new), new.is_flexible) == (b"\2\3ab\0\0", True)
    assert body_of(groups.find_coordinator_request("ab", None)) == b"\0\2ab"
    assert body_of(groups.find_coordinator_request("ab", VersionRange(0, 6))) == b"\0\2ab\0"


@pytest.mark.parametrize("version", VERSIONS_OF_FIND)
def test_found_coordinators(version: int) -> None:
    schema: Any = import_module(f"kio.schema.find_coordinator.v{version}.response")
    throttle = {"throttle_time": timedelta(0), "error_message": "starts"} if version else {}
    response = schema.FindCoordinatorResponse(
        error_code=ErrorCode(15), node_id=3, host="kafka-3", port=9092, **throttle
    )
    answer = answered(groups.find_coordinator_request("g", VersionRange(0, version)), response)
    assert groups.decode_find_coordinator(answer) == FoundCoordinator(15, Broker(3, "kafka-3", 9092))
    assert_nothing_else_is_taken(answer, groups.decode_find_coordinator)


@pytest.mark.parametrize("version", VERSIONS_OF_DESCRIBE)
def test_descriptions(version: int) -> None:
    members = {"one": assignment({"orders": [0, 2], "returns": [1]}), None: assignment({}, tail=b"")}
    request = groups.describe_group_request("billing", VersionRange(0, version))
    answer = answered(request, description(version, members))
    static = "one" if version >= groups.FIRST_WITH_INSTANCE_IDS else None
    assert groups.decode_described_group(answer) == GroupAnswer(
        0,
        GroupDescription(
            "Stable",
            "range",
            (
                GroupMember(static, frozenset({("orders", 0), ("orders", 2), ("returns", 1)})),
                GroupMember(None, frozenset()),
            ),
        ),
    )
    assert_nothing_else_is_taken(answer, groups.decode_described_group)


def test_an_error_is_handed_on_whether_its_code_is_known_or_not() -> None:
    request = groups.describe_group_request("billing", VersionRange(0, 4))
    for error in (30, 117):
        assert groups.decode_described_group(answered(request, description(4, {}, error=error))).error_code == error


def test_a_group_of_something_else_than_consumers_has_no_partitions() -> None:
    request = groups.describe_group_request("billing", VersionRange(0, 4))
    answer = groups.decode_described_group(answered(request, description(4, {None: b"connectors"}, kind="connect")))
    assert answer.group.members == (GroupMember(None, frozenset()),)


@pytest.mark.parametrize("assigned", [b"\0", b"\0\1\x7f\xff\xff\xff", assignment({"orders": [1]}, tail=b"")[:-1]])
def test_an_assignment_that_cannot_be_read_is_refused(assigned: bytes) -> None:
    request = groups.describe_group_request("billing", VersionRange(0, 4))
    with pytest.raises(ProtocolError):
        groups.decode_described_group(answered(request, description(4, {None: assigned})))


def assert_nothing_else_is_taken(answer: ClientResponse, decode: Any) -> None:
    """Asserts that the decoder refuses truncated bytes, and bytes with a tail."""
    whole = bytes(answer.frame)
    for body in (*(whole[:length] for length in range(len(whole))), whole + b"\0"):
        with pytest.raises(ProtocolError):
            decode(ClientResponse(answer.request, memoryview(bytearray(body)), 0))
