from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, join_values, joined, versions
from tests.pool.apis.messages import response
from tests.pool.harness import GROUP

VERSIONS = versions(ApiKey.SYNC_GROUP)
FIRST_WITH_PROTOCOL = 5


def asked(client: Client, **changes: Any) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "generation_id": client.generation,
        "member_id": client.member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (
            {"member_id": "another", "assignment": b"not mine"},
            {"member_id": client.member_id, "assignment": b"mine"},
        ),
        **changes,
    }


def answered(version: int, assignment: bytes) -> Any:
    names = {"protocol_type": "consumer", "protocol_name": "range"}
    return response(ApiKey.SYNC_GROUP, version, assignment=assignment, **names)


def refused(version: int, error: ErrorCode) -> Any:
    return response(ApiKey.SYNC_GROUP, version, error_code=error, assignment=b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_member_gets_back_what_it_assigned_to_itself(version: int) -> None:
    client = joined(Mesh())
    assert client.ask(ApiKey.SYNC_GROUP, version, **asked(client)) == answered(version, b"mine")
    assert client.ask(ApiKey.SYNC_GROUP, version, **asked(client, assignments=())) == answered(version, b"mine")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_assignment_is_forgotten_at_the_next_join(version: int) -> None:
    client = joined(Mesh())
    client.ask(ApiKey.SYNC_GROUP, version, **asked(client))
    client.join()
    assert client.ask(ApiKey.SYNC_GROUP, version, **asked(client, assignments=())) == answered(version, b"")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "unknown", "generation_id": 7}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": -1}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_refused(version: int, changes: dict[str, Any], error: ErrorCode) -> None:
    client = joined(Mesh())
    assert client.ask(ApiKey.SYNC_GROUP, version, **asked(client, **changes)) == refused(version, error)


@pytest.mark.parametrize("version", VERSIONS[3:])
def test_a_static_member_that_was_fenced(version: int) -> None:
    mesh = Mesh()
    older = joined(mesh, group_instance_id="pod-1")
    joined(mesh, group_instance_id="pod-1")
    values = asked(older, group_instance_id="pod-1", generation_id=9)
    assert older.ask(ApiKey.SYNC_GROUP, version, **values) == refused(version, ErrorCode.FENCED_INSTANCE_ID)


@pytest.mark.parametrize("version", VERSIONS)
def test_while_the_join_waits(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    other = Client(mesh)
    other.send(ApiKey.JOIN_GROUP, 9, **join_values(member_id=client.member_id))
    values = asked(client, generation_id=2)
    assert client.ask(ApiKey.SYNC_GROUP, version, **values) == refused(version, ErrorCode.REBALANCE_IN_PROGRESS)


# KIP-559


@pytest.mark.parametrize("changes", [{"protocol_type": "connect"}, {"protocol_name": "roundrobin"}])
def test_another_protocol_than_that_of_its_join(changes: dict[str, Any]) -> None:
    client = joined(Mesh())
    expected = refused(FIRST_WITH_PROTOCOL, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert client.ask(ApiKey.SYNC_GROUP, FIRST_WITH_PROTOCOL, **asked(client, **changes)) == expected


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
@pytest.mark.parametrize("changes", [{}, {"member_id": "unknown"}, {"generation_id": 9}, {"group_id": ""}])
def test_no_protocol_is_refused_before_anything_else(missing: str, changes: dict[str, Any]) -> None:
    client = joined(Mesh())
    values = asked(client, **{**changes, missing: None})
    expected = refused(FIRST_WITH_PROTOCOL, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert client.ask(ApiKey.SYNC_GROUP, FIRST_WITH_PROTOCOL, **values) == expected


def test_a_wrong_protocol_is_refused_after_member_and_generation() -> None:
    client = joined(Mesh())
    wrong = {"protocol_name": "sticky"}
    for changes, error in (
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 9}, ErrorCode.ILLEGAL_GENERATION),
    ):
        values = asked(client, **wrong, **changes)
        assert client.ask(ApiKey.SYNC_GROUP, FIRST_WITH_PROTOCOL, **values) == refused(5, error)
