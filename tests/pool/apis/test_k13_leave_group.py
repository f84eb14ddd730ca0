from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, fetch_values, joined, values_of, versions
from tests.pool.apis.messages import response
from tests.pool.harness import GROUP

VERSIONS = versions(ApiKey.LEAVE_GROUP)


def leave(client: Client, version: int, *members: tuple[str, str | None], group: str = GROUP) -> Any:
    named = tuple({"member_id": id, "group_instance_id": instance} for id, instance in members)
    return client.ask(ApiKey.LEAVE_GROUP, version, group_id=group, member_id=members[0][0], members=named)


def answered(version: int, *members: tuple[str, str | None, ErrorCode]) -> Any:
    """Up to v2 the error of the one member is the error of the whole answer."""
    named = tuple(
        {"member_id": id, "group_instance_id": instance, "error_code": error} for id, instance, error in members
    )
    error = members[0][2] if version <= 2 else ErrorCode.NONE
    return response(ApiKey.LEAVE_GROUP, version, error_code=error, members=named)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_leaves_once(version: int) -> None:
    client = joined(Mesh())
    for error in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
        assert leave(client, version, (client.member_id, None)) == answered(version, (client.member_id, None, error))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_group(version: int) -> None:
    answer = leave(Client(Mesh()), version, ("m", None), group="other")
    assert answer == answered(version, ("m", None, ErrorCode.UNKNOWN_MEMBER_ID))


@pytest.mark.parametrize("version", VERSIONS)
def test_its_window_goes_to_another_member_in_the_same_step(version: int) -> None:
    mesh = Mesh()
    leaving, staying = joined(mesh, "leaving"), joined(mesh, "staying")
    first = leaving.send(ApiKey.FETCH, 12, **fetch_values(mesh, leaving.positions()))
    mesh.produce(0, count=3)
    given = leaving.answer(first).responses[0].partitions[0].records
    parked = staying.send(ApiKey.FETCH, 12, **fetch_values(mesh, staying.positions()))
    leave(leaving, version, (leaving.member_id, None))
    taken = staying.answer(parked).responses[0].partitions[0].records
    assert [value for _, value in values_of(taken)] == [value for _, value in values_of(given)]


@pytest.mark.parametrize("version", VERSIONS[3:])
def test_several_members_and_static_ones_by_their_instance_id(version: int) -> None:
    mesh = Mesh()
    dynamic, static = joined(mesh), joined(mesh, group_instance_id="pod-1")
    answer = leave(
        Client(mesh),
        version,
        ("unknown", None),
        (dynamic.member_id, None),
        ("wrong", "pod-1"),
        ("", "pod-1"),
        (static.member_id, "pod-1"),
        ("", "pod-2"),
    )
    assert answer == answered(
        version,
        ("unknown", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (dynamic.member_id, None, ErrorCode.NONE),
        ("wrong", "pod-1", ErrorCode.FENCED_INSTANCE_ID),
        ("", "pod-1", ErrorCode.NONE),
        (static.member_id, "pod-1", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "pod-2", ErrorCode.UNKNOWN_MEMBER_ID),
    )
    assert not mesh.pool.members.by_id
