from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, versions
from tests.pool.apis.sharing import acknowledge_values, fetch_values, share_member, topics
from tests.pool.harness import source


def errors_of(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.responses for each in topic.partitions]


def holding(mesh: Mesh) -> Client:
    """A member that holds offsets 0 to 4 of partition 0."""
    client = share_member(mesh)
    mesh.produce(0, 5)
    client.ask(ApiKey.SHARE_FETCH, 2, **fetch_values(1))
    return client


@pytest.mark.parametrize("version", versions(ApiKey.SHARE_ACKNOWLEDGE))
def test_acknowledges(version: int) -> None:
    mesh = Mesh()
    client = holding(mesh)
    said = acknowledge_values(2, topics=topics(mesh, {0: [(0, 1, (1,)), (2, 4, (1, 1, 1))]}))
    answer = client.ask(ApiKey.SHARE_ACKNOWLEDGE, version, **said)
    assert (answer.error_code, errors_of(answer)) == (0, [0])
    assert mesh.stored[source(0)] == 5
    if version >= 2:
        assert answer.acquisition_lock_timeout.total_seconds() == 30.0


@pytest.mark.parametrize("version", versions(ApiKey.SHARE_ACKNOWLEDGE))
def test_what_it_does_not_have(version: int) -> None:
    mesh = Mesh()
    client = holding(mesh)
    said = acknowledge_values(2, topics=topics(mesh, {0: [(0, 9, (1,))], 7: [(0, 0, (1,))]}))
    answer = client.ask(ApiKey.SHARE_ACKNOWLEDGE, version, **said)
    assert errors_of(answer) == [ErrorCode.INVALID_RECORD_STATE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_waits_for_its_commit_while_the_mesh_stops() -> None:
    mesh = Mesh(auto_store=False)
    client = holding(mesh)
    said = acknowledge_values(2, topics=topics(mesh, {0: [(0, 4, (1,))]}))
    asked = client.send(ApiKey.SHARE_ACKNOWLEDGE, 2, **said)
    assert client.answer(asked) is None
    mesh.do(mesh.cluster.drain(mesh.now))
    answer = client.answer(asked)
    assert answer is not None
    assert answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_ends_its_session() -> None:
    mesh = Mesh()
    client = holding(mesh)
    said = acknowledge_values(-1, topics=topics(mesh, {0: [(0, 1, (1,))]}))
    assert errors_of(client.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, **said)) == [0]
    assert mesh.pool.partitions[source(0)].acquired_offsets == 0
    refused = client.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, **acknowledge_values(2))
    assert refused.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"member_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "x" * 37}, ErrorCode.INVALID_REQUEST),
        ({"share_session_epoch": 0}, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        ({"share_session_epoch": 5}, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        ({"group_id": "other"}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"group_id": None}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"member_id": "another"}, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
)
def test_what_is_refused(changes: dict[str, Any], error: ErrorCode) -> None:
    mesh = Mesh()
    answer = holding(mesh).ask(ApiKey.SHARE_ACKNOWLEDGE, 2, **acknowledge_values(2, **changes))
    assert answer.error_code == error
