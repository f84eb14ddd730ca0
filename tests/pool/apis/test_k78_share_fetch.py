from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, joined, values_of, versions
from tests.pool.apis.sharing import fetch_values, heartbeat_values, share_member, topics
from tests.pool.harness import source, value_of


def partitions_of(answer: Any) -> dict[int, Any]:
    return {each.partition_index: each for topic in answer.responses for each in topic.partitions}


@pytest.mark.parametrize("version", versions(ApiKey.SHARE_FETCH))
def test_acquires_and_acknowledges(version: int) -> None:
    mesh = Mesh()
    client = share_member(mesh)
    mesh.produce(0, 3)
    answer = client.ask(ApiKey.SHARE_FETCH, version, **fetch_values(1))
    assert (answer.error_code, answer.acquisition_lock_timeout.total_seconds()) == (0, 30.0)
    (partition,) = partitions_of(answer).values()
    assert values_of(partition.records) == [(offset, value_of(source(0), offset)) for offset in range(3)]
    assert [(each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records] == [
        (0, 2, 1)
    ]
    assert partition.current_leader.leader_id == -1
    mesh.produce(1, 1)
    said = fetch_values(2, topics=topics(mesh, {0: [(0, 2, (1,))]}))
    found = partitions_of(client.ask(ApiKey.SHARE_FETCH, version, **said))
    assert (found[0].acknowledge_error_code, found[0].records) == (0, b"")
    assert len(found[1].acquired_records) == 1
    assert mesh.stored[source(0)] == 3


@pytest.mark.parametrize("version", versions(ApiKey.SHARE_FETCH))
def test_is_parked_until_records_come(version: int) -> None:
    mesh = Mesh()
    client = share_member(mesh)
    correlation = client.send(ApiKey.SHARE_FETCH, version, **fetch_values(1))
    assert client.answer(correlation) is None
    mesh.produce(2, 1)
    assert list(partitions_of(client.answer(correlation))) == [2]
    correlation = client.send(ApiKey.SHARE_FETCH, version, **fetch_values(2))
    mesh.advance(0.5)
    assert not partitions_of(client.answer(correlation))


@pytest.mark.parametrize(
    "changes",
    [
        {"member_id": None},
        {"member_id": ""},
        {"member_id": "x" * 37},
        {"share_acquire_mode": 2},
        {"is_renew_ack": True},
    ],
)
def test_what_is_no_request_of_a_share_member(changes: dict[str, Any]) -> None:
    answer = share_member(Mesh()).ask(ApiKey.SHARE_FETCH, 2, **fetch_values(1, **changes))
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_renewal_fetches_nothing() -> None:
    mesh = Mesh()
    client = share_member(mesh)
    mesh.produce(0, 3)
    client.ask(ApiKey.SHARE_FETCH, 2, **fetch_values(1))
    nothing = {"max_wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    renewed = topics(mesh, {0: [(0, 2, (4,))]})
    answer = client.ask(ApiKey.SHARE_FETCH, 2, **fetch_values(2, is_renew_ack=True, topics=renewed, **nothing))
    assert [each.acknowledge_error_code for each in partitions_of(answer).values()] == [0]
    answer = client.ask(ApiKey.SHARE_FETCH, 1, **fetch_values(3, topics=renewed, max_wait=0))
    assert [each.acknowledge_error_code for each in partitions_of(answer).values()] == [ErrorCode.INVALID_REQUEST]


def test_a_topic_that_is_not_known() -> None:
    mesh = Mesh()
    client = Client(mesh)
    client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **heartbeat_values())
    (topic,) = topics(mesh, {0: ()})
    unknown = ({**topic, "topic_id": mesh.cluster.topics.topic_id("unknown")},)  # type: ignore[arg-type]
    answer = client.ask(ApiKey.SHARE_FETCH, 2, **fetch_values(0, topics=unknown))
    assert [each.error_code for each in partitions_of(answer).values()] == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_member_of_another_kind_has_no_session() -> None:
    mesh = Mesh()
    classic = joined(mesh)
    named = {"member_id": classic.member_id[:36]}
    mesh.pool.members.by_id[classic.member_id[:36]] = mesh.pool.members.by_id[classic.member_id]  # type: ignore[index]
    answer = classic.ask(ApiKey.SHARE_FETCH, 2, **fetch_values(0, **named))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    answer = classic.ask(ApiKey.SHARE_FETCH, 2, **fetch_values(1, **named))
    assert answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_group_that_is_not_known_has_no_session() -> None:
    answer = Client(Mesh()).ask(ApiKey.SHARE_FETCH, 2, **fetch_values(1))
    assert answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
