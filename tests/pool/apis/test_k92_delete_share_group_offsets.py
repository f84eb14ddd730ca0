from __future__ import annotations

from typing import Any

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh
from tests.pool.apis.sharing import share_member
from tests.pool.harness import GROUP, ORDERS, source


def delete(mesh: Mesh, group: str = GROUP) -> Any:
    topics = ({"topic_name": ORDERS}, {"topic_name": "unknown"})
    return Client(mesh, "tool").ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, group_id=group, topics=topics)


def test_a_group_without_members_forgets_whole_topics() -> None:
    mesh = Mesh()
    mesh.upstreams[GROUP].stored = {source(0): 5, source(3): 7}
    answer = delete(mesh)
    assert [each.error_code for each in answer.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert answer.responses[0].topic_id == mesh.cluster.topics.topic_id(ORDERS)
    assert not mesh.upstreams[GROUP].stored


def test_one_with_members_forgets_nothing() -> None:
    mesh = Mesh()
    share_member(mesh)
    mesh.upstreams[GROUP].stored = {source(0): 5}
    assert delete(mesh).error_code == ErrorCode.NON_EMPTY_GROUP
    assert mesh.upstreams[GROUP].stored == {source(0): 5}


def test_one_that_is_not_admitted_forgets_nothing() -> None:
    assert delete(Mesh(), "").error_code == ErrorCode.INVALID_GROUP_ID
