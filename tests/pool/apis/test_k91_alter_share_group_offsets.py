from __future__ import annotations

from typing import Any

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh
from tests.pool.apis.sharing import share_member
from tests.pool.harness import GROUP, ORDERS, source


def alter(mesh: Mesh, group: str = GROUP) -> Any:
    partitions = ({"partition_index": 0, "start_offset": 7}, {"partition_index": 9, "start_offset": 7})
    topics = ({"topic_name": ORDERS, "partitions": partitions},)
    return Client(mesh, "tool").ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id=group, topics=topics)


def test_a_group_without_members_is_set() -> None:
    mesh = Mesh()
    answer = alter(mesh)
    (topic,) = answer.responses
    assert [each.error_code for each in topic.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert topic.topic_id == mesh.cluster.topics.topic_id(ORDERS)
    assert mesh.upstreams[GROUP].stored == {source(0): 7}


def test_one_with_members_is_not() -> None:
    mesh = Mesh()
    share_member(mesh)
    assert alter(mesh).error_code == ErrorCode.NON_EMPTY_GROUP
    assert not mesh.stored


def test_one_that_is_not_admitted_is_not() -> None:
    assert alter(Mesh(), "").error_code == ErrorCode.INVALID_GROUP_ID
