"""Which clients are tools, and their answers: upstream offsets of one cluster, where consumers see virtual ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, fetch_values, joined, versions
from tests.pool.harness import GROUP, ORDERS, source

ADMIN = "adminclient-1"


def busy() -> tuple[Mesh, Client]:
    """Upstream partition 0 has ten records, four of them committed."""
    mesh = Mesh()
    member = joined(mesh)
    start = member.positions()[0]
    member.send(ApiKey.FETCH, 12, **fetch_values(mesh, {0: start}))
    mesh.produce(0, count=10)
    member.ask(ApiKey.OFFSET_COMMIT, 8, **member.commit_values({0: start + 4}))
    assert mesh.stored[source(0)] == 4
    return mesh, member


def offsets(client: Client, version: int, topics: Iterable[str] | None) -> tuple[int, dict[int, int]]:
    wanted = None if topics is None else tuple({"name": name, "partition_indexes": (0, 1)} for name in topics)
    group: dict[str, Any] = {"group_id": GROUP, "topics": wanted, "member_id": None, "member_epoch": -1}
    answer = client.ask(ApiKey.OFFSET_FETCH, version, **group, groups=(group,))
    answer = answer.groups[0] if version >= 8 else answer
    found = {each.partition_index: each.committed_offset for topic in answer.topics for each in topic.partitions}
    return getattr(answer, "error_code", 0), found


def ends(client: Client, version: int = 7, timestamp: int = -1, topic: str = ORDERS) -> tuple[int, int]:
    topics = ({"name": topic, "partitions": ({"partition_index": 0, "timestamp": timestamp},)},)
    (partition,) = client.ask(ApiKey.LIST_OFFSETS, version, topics=topics).topics[0].partitions
    return partition.error_code, partition.offset


def commit(client: Client, version: int, positions: dict[int, int], group: str = GROUP) -> dict[int, int]:
    values = client.commit_values(positions, group_id=group, member_id="", generation_id_or_member_epoch=-1)
    (topic,) = client.ask(ApiKey.OFFSET_COMMIT, version, **values).topics
    return {each.partition_index: each.error_code for each in topic.partitions}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_offsets_of_named_topics(version: int) -> None:
    mesh, _ = busy()
    assert offsets(Client(mesh, ADMIN), version, [ORDERS]) == (0, {0: 4, 1: -1})
    assert len(mesh.pool.members.groupless) == 0, "a tool is no consumer"


@pytest.mark.parametrize("version", [version for version in versions(ApiKey.OFFSET_FETCH) if version >= 2])
def test_offsets_of_all_topics(version: int) -> None:
    mesh, _ = busy()
    assert offsets(Client(mesh, "any"), version, None) == (0, {0: 4})


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
def test_ends_of_logs(version: int) -> None:
    mesh, _ = busy()
    tool = Client(mesh, ADMIN)
    assert [ends(tool, version, timestamp) for timestamp in (-1, -2, 1_700_000_000_000)] == [(0, 10), (0, 0), (0, 5)]
    assert ends(tool, version, topic="unknown")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_client_that_asked_for_groups_is_a_tool_for_a_minute_on_connections_that_consume_nothing() -> None:
    mesh, _ = busy()
    latest = int(mesh.cluster.slots.latest)
    asking, other, elsewhere = (Client(mesh, name) for name in ("exporter", "exporter", "somebody"))
    assert ends(other) == (0, latest)
    asking.ask(ApiKey.LIST_GROUPS, 0)
    assert ends(other) == (0, 10)
    assert ends(elsewhere) == (0, latest)
    mesh.advance(61)
    assert ends(other) == (0, latest)
    offsets(asking, 8, None)
    assert ends(other) == (0, 10)
    consuming = joined(mesh, "exporter")
    assert ends(consuming) == (0, int(mesh.cluster.slots.latest))


def test_a_member_that_names_itself_is_none_whatever_else_its_client_asked() -> None:
    """franz-go asks for offsets on a separate connection, and its admin client has the same client.id."""
    mesh, _ = busy()
    Client(mesh, "kgo").ask(ApiKey.DELETE_GROUPS, 1, groups_names=("another",))
    member, other = joined(mesh, "kgo"), Client(mesh, "kgo")
    topics = ({"name": ORDERS, "partition_indexes": (0,)},)
    group = {"group_id": GROUP, "topics": topics, "member_id": member.member_id, "member_epoch": 1}
    (answer,) = other.ask(ApiKey.OFFSET_FETCH, 9, groups=(group,)).groups
    assert answer.topics[0].partitions[0].committed_offset == member.positions()[0]


def test_a_cluster_that_does_not_answer() -> None:
    mesh, _ = busy()
    tool = Client(mesh, ADMIN)
    mesh.is_down = True
    assert offsets(tool, 8, [ORDERS]) == (0, {0: 4, 1: 0}), "what its pool knows"
    assert ends(tool) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    mesh.upstream(lambda pool: pool.intake.ends_known({source(0): 12}))
    assert ends(tool) == (0, 12)


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_setting_offsets(version: int) -> None:
    mesh, member = busy()
    tool = Client(mesh, ADMIN)
    assert commit(tool, version, {0: 2}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}, "it has a member"
    assert mesh.stored[source(0)] == 4
    member.ask(ApiKey.LEAVE_GROUP, 3, group_id=GROUP, members=({"member_id": member.member_id},))
    assert commit(tool, version, {0: 2, 9: 1}) == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert mesh.stored[source(0)] == 2
    assert commit(tool, version, {0: 2}, "") == {0: ErrorCode.INVALID_GROUP_ID}


def test_no_group_is_called_unknown_while_the_store_is_being_read() -> None:
    """A tool that asks right after the start of the mesh asks again, as at a broker whose coordinator is loading."""
    mesh = Mesh()
    mesh.kept.is_loading = True
    mesh.kept.seen = {GROUP}
    mesh.kept.set[GROUP] = {"share.delivery.count.limit": "7"}
    mesh.upstreams[GROUP].stored[source(0)] = 7
    tool = Client(mesh, "tool")

    def answers() -> list[ErrorCode]:
        groups, resources = (GROUP,), ({"resource_type": 32, "resource_name": GROUP},)
        return [
            tool.ask(ApiKey.LIST_GROUPS, 5).error_code,
            tool.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=(32,)).error_code,
            tool.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).results[0].error_code,
            tool.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=groups).groups[0].error_code,
            tool.ask(ApiKey.DELETE_GROUPS, 2, groups_names=groups).results[0].error_code,
        ]

    assert set(answers()) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert GROUP in mesh.upstreams, "nothing is deleted before all of the group is known"
    mesh.kept.is_loading = False
    assert set(answers()) == {ErrorCode.NONE}
