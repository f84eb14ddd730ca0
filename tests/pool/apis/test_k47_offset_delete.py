from __future__ import annotations

from typing import Any

from mesh.pool.common.ids import GroupId
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, joined
from tests.pool.harness import GROUP, ORDERS, source

OLD = GroupId("old")


def delete(mesh: Mesh, group: str, *numbers: int) -> Any:
    topics = ({"name": ORDERS, "partitions": tuple({"partition_index": each} for each in numbers)},)
    return Client(mesh, "tool").ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)


def test_a_group_without_members_forgets_partitions() -> None:
    mesh = Mesh()
    mesh.upstreams[OLD].stored = {source(0): 5, source(1): 6}
    answer = delete(mesh, OLD, 0, 9)
    assert answer.error_code == 0
    (topic,) = answer.topics
    assert [each.error_code for each in topic.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert mesh.upstreams[OLD].stored == {source(1): 6}


def test_one_with_a_pool_and_one_that_is_not_admitted_are_refused() -> None:
    mesh = Mesh()
    joined(mesh)
    assert delete(mesh, GROUP, 0).error_code == ErrorCode.NON_EMPTY_GROUP
    assert delete(mesh, "", 0).error_code == ErrorCode.INVALID_GROUP_ID
