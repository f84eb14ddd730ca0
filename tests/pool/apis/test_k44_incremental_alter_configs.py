from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, versions
from tests.pool.apis.sharing import fetch_values, heartbeat_values, share_member
from tests.pool.harness import GROUP, ORDERS

LIMIT, LOCK = "share.delivery.count.limit", "share.record.lock.duration.ms"
TO_SET, TO_DELETE, TO_APPEND = 0, 1, 2


def resource(*changes: tuple[str, int, str | None], name: str = GROUP, kind: int = 32) -> dict[str, Any]:
    configs = tuple({"name": key, "config_operation": operation, "value": value} for key, operation, value in changes)
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def alter(mesh: Mesh, *resources: dict[str, Any], version: int = 1, validates: bool = False) -> list[tuple[int, str]]:
    values = {"resources": resources, "validate_only": validates}
    answer = Client(mesh, "tool").ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, **values)
    names = [(each.resource_type, each.resource_name) for each in answer.responses]
    assert names == [(each["resource_type"], each["resource_name"]) for each in resources]
    return [(int(each.error_code), each.error_message or "") for each in answer.responses]


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_set_and_deleted(version: int) -> None:
    mesh = Mesh()
    done = alter(mesh, resource((LIMIT, TO_SET, "7"), (LOCK, TO_SET, "15000")), version=version)
    assert done == [(0, "")]
    assert mesh.kept.set[GROUP] == {LIMIT: "7", LOCK: "15000"}
    assert alter(mesh, resource((LIMIT, TO_DELETE, None)), version=version) == [(0, "")]
    assert mesh.kept.set[GROUP] == {LOCK: "15000"}


def test_it_holds_for_members_from_their_next_heartbeat_on() -> None:
    mesh = Mesh()
    client = share_member(mesh)

    def lock() -> int:
        heartbeat = heartbeat_values(member_epoch=1, subscribed_topic_names=None)
        assert client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **heartbeat).error_code == 0
        return int(
            client.ask(
                ApiKey.SHARE_FETCH, 2, **fetch_values(next(epochs), max_wait=0)
            ).acquisition_lock_timeout.total_seconds()
        )

    epochs = iter(range(1, 4))
    assert lock() == 30
    alter(mesh, resource((LOCK, TO_SET, "20000")))
    assert lock() == 20


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (resource((LIMIT, TO_SET, "11")), ErrorCode.INVALID_CONFIG, "a whole number from 2 to 10"),
        (resource(("share.unknown", TO_SET, "1")), ErrorCode.INVALID_CONFIG, "share.unknown is not known"),
        (resource((LIMIT, TO_APPEND, "7")), ErrorCode.INVALID_REQUEST, "no list"),
        (resource((LIMIT, TO_SET, None)), ErrorCode.INVALID_REQUEST, "no value"),
        (resource((LIMIT, TO_SET, "3"), (LIMIT, TO_SET, "4")), ErrorCode.INVALID_REQUEST, "twice"),
        (resource(("cleanup.policy", TO_SET, "x"), kind=2, name=ORDERS), ErrorCode.INVALID_REQUEST, "those of groups"),
        (resource((LIMIT, TO_SET, "7"), name=""), ErrorCode.INVALID_REQUEST, "is empty"),
    ],
)
def test_what_is_wrong_changes_nothing_and_leaves_others_alone(wrong: dict[str, Any], error: int, said: str) -> None:
    mesh = Mesh()
    right = resource((LIMIT, TO_SET, "7"), name="another")
    (code, message), other = alter(mesh, wrong, right)
    assert (code, other) == (error, (0, ""))
    assert said in message
    assert mesh.kept.configured() == {"another"}


def test_a_resource_may_be_named_once() -> None:
    mesh = Mesh()
    twice = alter(mesh, resource((LIMIT, TO_SET, "7")), resource((LOCK, TO_SET, "20000")))
    assert [code for code, _ in twice] == [ErrorCode.INVALID_REQUEST] * 2
    assert not mesh.kept.set


def test_validating_changes_nothing() -> None:
    mesh = Mesh()
    good, bad = resource((LIMIT, TO_SET, "7")), resource((LIMIT, TO_SET, "70"), name="another")
    assert [code for code, _ in alter(mesh, good, bad, validates=True)] == [0, ErrorCode.INVALID_CONFIG]
    assert not mesh.kept.set


def test_members_wait_until_it_is_known_what_is_set() -> None:
    mesh = Mesh()
    mesh.kept.is_loading = True
    joining = Client(mesh).ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **heartbeat_values())
    assert joining.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert GROUP not in mesh.cluster.pools
    mesh.kept.is_loading = False
    share_member(mesh)
