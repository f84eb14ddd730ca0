from __future__ import annotations

from typing import Any

import pytest

from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import PoolSettings
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, join_values, joined, member_of, versions
from tests.pool.apis.messages import response
from tests.pool.harness import GROUP

VERSIONS = versions(ApiKey.JOIN_GROUP)


def answered(version: int, member_id: str, generation: int, instance_id: str | None = None) -> Any:
    member = {"member_id": member_id, "group_instance_id": instance_id, "metadata": b"subscription"}
    return response(
        ApiKey.JOIN_GROUP,
        version,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        leader=member_id,
        skip_assignment=False,
        member_id=member_id,
        members=(member,),
    )


def refused(version: int, error: ErrorCode, member_id: str = "") -> Any:
    """Kafka names no protocol with an error: null from v7 on, empty before."""
    return response(
        ApiKey.JOIN_GROUP,
        version,
        error_code=error,
        generation_id=-1,
        protocol_name=None if version >= 7 else "",
        leader="",
        member_id=member_id,
        members=(),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_generation_of_one_after_the_join_delay(version: int) -> None:
    mesh = Mesh()
    client = Client(mesh, "billing")
    values = join_values(member_id="")
    if version >= 4:
        promised = client.ask(ApiKey.JOIN_GROUP, version, **values)
        assert promised == refused(version, ErrorCode.MEMBER_ID_REQUIRED, promised.member_id)
        assert promised.member_id.startswith("billing-")
        values["member_id"] = promised.member_id
    correlation = client.send(ApiKey.JOIN_GROUP, version, **values)
    mesh.advance(0.15)
    assert client.answer(correlation) is None
    mesh.advance(0.1)
    answer = client.answer(correlation)
    assert answer == answered(version, answer.member_id, 1)
    assert answer.member_id == (values["member_id"] or answer.member_id)
    assert answer.member_id.startswith("billing-")
    client.member_id = answer.member_id
    assert client.join(version) == answered(version, answer.member_id, 2)
    assert member_of(mesh, client).rebalance_timeout == (60 if version else 45)


@pytest.mark.parametrize("version", VERSIONS)
def test_members_do_not_disturb_each_other(version: int) -> None:
    mesh = Mesh()
    first = joined(mesh, "first")
    second = Client(mesh, "second")
    assert second.join(version) == answered(version, second.member_id, 1)
    alive = {"group_id": GROUP, "generation_id": 1, "member_id": first.member_id}
    assert first.ask(ApiKey.HEARTBEAT, 4, **alive) == response(ApiKey.HEARTBEAT, 4)


@pytest.mark.parametrize("version", VERSIONS[5:])
def test_a_static_member_fences_its_predecessor(version: int) -> None:
    mesh = Mesh()
    older, newer = Client(mesh), Client(mesh)
    answer = older.join(version, group_instance_id="pod-1")
    assert answer == answered(version, older.member_id, 1, "pod-1")
    slot = member_of(mesh, older).slot
    assert newer.join(version, group_instance_id="pod-1") == answered(version, newer.member_id, 1, "pod-1")
    assert newer.member_id != older.member_id
    assert member_of(mesh, newer).slot != slot
    answer = older.ask(
        ApiKey.HEARTBEAT,
        4,
        group_id=GROUP,
        generation_id=1,
        member_id=older.member_id,
        group_instance_id="pod-1",
    )
    assert answer == response(ApiKey.HEARTBEAT, 4, error_code=ErrorCode.FENCED_INSTANCE_ID)
    again = older.ask(ApiKey.JOIN_GROUP, version, **join_values(member_id=older.member_id, group_instance_id="pod-1"))
    assert again == refused(version, ErrorCode.FENCED_INSTANCE_ID, older.member_id)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ({"group_id": "shop-2"}, ErrorCode.GROUP_MAX_SIZE_REACHED),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_refused(version: int, changes: dict[str, Any], error: ErrorCode) -> None:
    mesh = Mesh(rules=GroupRules(admitted=("shop*",), maximum=1))
    joined(mesh)
    values = {**join_values(member_id=""), **changes}
    assert Client(mesh).ask(ApiKey.JOIN_GROUP, version, **values) == refused(version, error, values["member_id"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_full_group(version: int) -> None:
    mesh = Mesh(PoolSettings(max_members=1))
    joined(mesh)
    answer = Client(mesh).ask(ApiKey.JOIN_GROUP, version, **join_values(member_id=""))
    assert answer == refused(version, ErrorCode.GROUP_MAX_SIZE_REACHED)


def test_the_group_of_those_without_one_may_be_joined() -> None:
    client = Client(Mesh(rules=GroupRules(admitted=("shop*",), group_less=GroupId("readers"))))
    assert client.join(9, group_id="readers") == answered(9, client.member_id, 1)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_rebalance_timeout_that_is_none(version: int) -> None:
    mesh = Mesh()
    client = Client(mesh)
    client.join(version, rebalance_timeout=0)
    assert member_of(mesh, client).rebalance_timeout == 45
