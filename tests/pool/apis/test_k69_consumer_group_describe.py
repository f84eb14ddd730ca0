from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, fetch_values, joined, versions
from tests.pool.apis.test_k68_consumer_group_heartbeat import consumer
from tests.pool.harness import GROUP, ORDERS


def describe(mesh: Mesh, version: int, *groups: str) -> Any:
    return Client(mesh, "tool").ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=groups).groups


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_DESCRIBE))
def test_both_kinds_of_members(version: int) -> None:
    mesh = Mesh()
    new, classic = consumer(mesh, instance_id="pod-1", subscribed_topic_regex="ord.*"), joined(mesh)
    for client in (new, classic):
        client.send(ApiKey.FETCH, 12, **fetch_values(mesh, client.positions()))
    (group,) = describe(mesh, version, GROUP)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 1, 1)
    members = {member.member_id: member for member in group.members}
    assert members.keys() == {new.member_id, classic.member_id}
    described = members["m-1"]
    assert (described.instance_id, described.member_epoch, described.client_host) == ("pod-1", 1, "/10.0.0.1")
    assert (described.subscribed_topic_names, described.subscribed_topic_regex) == ((ORDERS,), "ord.*")
    assert members[classic.member_id].subscribed_topic_regex is None
    if version >= 1:
        assert (described.member_type, members[classic.member_id].member_type) == (1, 0)
    assert described.assignment == described.target_assignment
    parts = [part for member in group.members for part in member.assignment.topic_partitions]
    assert {(part.topic_name, part.topic_id) for part in parts} == {(ORDERS, mesh.cluster.topics.topic_id(ORDERS))}
    assert sorted(index for part in parts for index in part.partitions) == [0, 1, 2, 3]


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_DESCRIBE))
def test_classic_groups_are_described_otherwise(version: int) -> None:
    mesh = Mesh()
    joined(mesh)
    classic, unknown, nameless = describe(mesh, version, GROUP, "unknown", "")
    assert {classic.error_code, unknown.error_code} == {ErrorCode.GROUP_ID_NOT_FOUND}
    assert classic.error_message == f"Group {GROUP} is not a consumer group."
    assert unknown.error_message == "Group unknown not found."
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
