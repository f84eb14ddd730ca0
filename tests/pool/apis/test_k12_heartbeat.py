from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, join_values, joined, versions
from tests.pool.apis.messages import response
from tests.pool.harness import GROUP

VERSIONS = versions(ApiKey.HEARTBEAT)


def heartbeat(client: Client, version: int, **changes: Any) -> Any:
    values = {"group_id": GROUP, "generation_id": client.generation, "member_id": client.member_id}
    return client.ask(ApiKey.HEARTBEAT, version, **{**values, **changes})


def answered(version: int, error: ErrorCode = ErrorCode.NONE) -> Any:
    return response(ApiKey.HEARTBEAT, version, error_code=error)


@pytest.mark.parametrize("version", VERSIONS)
def test_answers(version: int) -> None:
    client = joined(Mesh())
    assert heartbeat(client, version) == answered(version)
    for changes, error in (
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
    ):
        assert heartbeat(client, version, **changes) == answered(version, error)


@pytest.mark.parametrize("version", VERSIONS)
def test_keeps_a_member_alive(version: int) -> None:
    mesh = Mesh()
    heard, silent = joined(mesh, "heard"), joined(mesh, "silent")
    for _ in range(3):
        mesh.advance(20)
        assert heartbeat(heard, version) == answered(version)
    assert heartbeat(silent, version) == answered(version, ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", VERSIONS[3:])
def test_static_members(version: int) -> None:
    mesh = Mesh()
    older = joined(mesh, group_instance_id="pod-1")
    assert heartbeat(older, version, group_instance_id="pod-1") == answered(version)
    unknown = heartbeat(older, version, group_instance_id="pod-2")
    assert unknown == answered(version, ErrorCode.UNKNOWN_MEMBER_ID)
    joined(mesh, group_instance_id="pod-1")
    fenced = heartbeat(older, version, group_instance_id="pod-1")
    assert fenced == answered(version, ErrorCode.FENCED_INSTANCE_ID)


@pytest.mark.parametrize("version", VERSIONS)
def test_while_its_own_join_waits(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    Client(mesh).send(ApiKey.JOIN_GROUP, 9, **join_values(member_id=client.member_id))
    assert heartbeat(client, version, generation_id=2) == answered(version, ErrorCode.REBALANCE_IN_PROGRESS)
