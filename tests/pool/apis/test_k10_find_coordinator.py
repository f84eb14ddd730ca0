from __future__ import annotations

from typing import Any

import pytest

from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, versions
from tests.pool.apis.messages import response

RULES = GroupRules(admitted=("team-*",), group_less=GroupId("readers"))


def asked(*keys: str, **values: Any) -> dict[str, Any]:
    return {"key": keys[0], "coordinator_keys": keys, **values}


def answered(version: int, *coordinators: dict[str, Any]) -> Any:
    return response(ApiKey.FIND_COORDINATOR, version, **coordinators[0], coordinators=coordinators)


def here(key: str) -> dict[str, Any]:
    return {"key": key, "node_id": 2, "host": "coordinator.example", "port": 9093, "error_message": None}


def refused(key: str, error: ErrorCode, message: str) -> dict[str, Any]:
    return {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": message}


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
@pytest.mark.parametrize("group", ["team-a", "readers"])
def test_every_group_that_may_join_has_its_coordinator_here(version: int, group: str) -> None:
    answer = Client(Mesh(rules=RULES)).ask(ApiKey.FIND_COORDINATOR, version, **asked(group))
    assert answer == answered(version, here(group))


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
def test_groups_that_may_not_join(version: int) -> None:
    client = Client(Mesh(rules=RULES))
    expected = refused("other", ErrorCode.GROUP_AUTHORIZATION_FAILED, "group other is not admitted here")
    assert client.ask(ApiKey.FIND_COORDINATOR, version, **asked("other")) == answered(version, expected)
    expected = refused("", ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    assert client.ask(ApiKey.FIND_COORDINATOR, version, **asked("")) == answered(version, expected)


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR)[1:])
@pytest.mark.parametrize("key_type", [1, 2, 3, -1])
def test_coordinators_of_other_things(version: int, key_type: int) -> None:
    answer = Client(Mesh()).ask(ApiKey.FIND_COORDINATOR, version, **asked("team-a", key_type=key_type))
    expected = refused("team-a", ErrorCode.INVALID_REQUEST, "kafka-mesh coordinates consumer groups only")
    assert answer == answered(version, expected)


def test_several_at_once() -> None:
    answer = Client(Mesh(rules=RULES)).ask(ApiKey.FIND_COORDINATOR, 4, **asked("team-a", "other", "team-b"))
    other = refused("other", ErrorCode.GROUP_AUTHORIZATION_FAILED, "group other is not admitted here")
    assert answer == answered(4, here("team-a"), other, here("team-b"))
    assert Client(Mesh()).ask(ApiKey.FIND_COORDINATOR, 4, key="", coordinator_keys=()) == response(
        ApiKey.FIND_COORDINATOR, 4, coordinators=()
    )
