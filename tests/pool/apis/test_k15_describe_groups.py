from __future__ import annotations

import struct
from typing import Any

import pytest

from mesh.pool.common.group_rules import GroupRules
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import ENDPOINT, Client, Mesh, fetch_values, joined, versions
from tests.pool.harness import GROUP, ORDERS, source


def describe(mesh: Mesh, version: int, *groups: str) -> Any:
    return Client(mesh, "tool").ask(ApiKey.DESCRIBE_GROUPS, version, groups=groups).groups


def partitions_of(assignment: bytes) -> dict[str, tuple[int, ...]]:
    """The partitions in a ConsumerProtocolAssignment v0."""
    version, topics = struct.unpack_from(">hi", assignment)
    assert version == 0
    at, found = 6, {}
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", assignment, at)
        name = assignment[at + 2 : at + 2 + length].decode()
        (count,) = struct.unpack_from(">i", assignment, at + 2 + length)
        found[name] = struct.unpack_from(f">{count}i", assignment, at + 6 + length)
        at += 6 + length + 4 * count
    assert assignment[at:] == b"\xff\xff\xff\xff"
    return found


def fetch(mesh: Mesh, client: Client) -> None:
    client.send(ApiKey.FETCH, 12, **fetch_values(mesh, client.positions()))


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_members_and_each_partition_once(version: int) -> None:
    mesh = Mesh()
    first, second = (joined(mesh, name, group_instance_id=name) for name in ("a", "b"))
    fetch(mesh, first)
    mesh.produce(1, count=5)  # the first member holds records of this one
    fetch(mesh, second)
    (group,) = describe(mesh, version, GROUP)
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Stable", "consumer")
    members = {member.member_id: member for member in group.members}
    assert members.keys() == {first.member_id, second.member_id}
    assert {member.client_id for member in group.members} == {"a", "b"}
    assert members[first.member_id].member_metadata == b"subscription"
    assert members[first.member_id].client_host == "/10.0.0.1"
    if version >= 4:
        assert members[first.member_id].group_instance_id == "a"
    shares = {name: partitions_of(member.member_assignment).get(ORDERS, ()) for name, member in members.items()}
    assert 1 in shares[first.member_id]
    assert sorted(shares[first.member_id] + shares[second.member_id]) == [0, 1, 2, 3]


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_groups_without_pool(version: int) -> None:
    mesh = Mesh()
    mesh.upstreams[GROUP].stored[source(0)] = 7
    known, unknown, refused = describe(mesh, version, GROUP, "unknown", "")
    assert (known.error_code, known.group_state, known.members) == (0, "Empty", ())
    assert unknown.group_state == "Dead"
    assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert refused.error_code == ErrorCode.INVALID_GROUP_ID
    assert not mesh.cluster.pools, "to look at a group does not make it"


def test_a_cluster_that_does_not_answer() -> None:
    mesh = Mesh()
    mesh.is_down = True
    (group,) = describe(mesh, 6, GROUP)
    assert group.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("api_key", "key"),
    [
        (ApiKey.DESCRIBE_GROUPS, "groups"),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, "group_ids"),
        (ApiKey.SHARE_GROUP_DESCRIBE, "group_ids"),
    ],
)
def test_only_the_node_of_the_coordinator_describes_groups(api_key: ApiKey, key: str) -> None:
    mesh = Mesh(rules=GroupRules(admitted=(GROUP, "unknown")))
    joined(mesh)
    nodes = ENDPOINT.nodes
    for version in versions(api_key):
        for node in (0, nodes.broker, nodes.coordinator + 1):
            asked: dict[str, Any] = {key: (GROUP, "unknown", "foreign")}
            groups = Client(mesh, "tool", node=node).ask(api_key, version, **asked).groups
            assert [(each.group_id, each.error_code) for each in groups] == [
                (GROUP, ErrorCode.NOT_COORDINATOR),
                ("unknown", ErrorCode.NOT_COORDINATOR),
                ("foreign", ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ]
            assert not mesh.questions, "the clusters are not asked"
