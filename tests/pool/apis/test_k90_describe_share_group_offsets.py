from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, versions
from tests.pool.apis.sharing import acknowledge_values, fetch_values, share_member, topics
from tests.pool.harness import GROUP, ORDERS, source


def described(mesh: Mesh, version: int, names: Any = None) -> dict[int, tuple[int, int, int]]:
    """Start offset, lag and error of each partition."""
    asked = ({"group_id": GROUP, "topics": names},)
    (group,) = Client(mesh, "tool").ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, groups=asked).groups
    assert group.error_code == 0
    return {
        each.partition_index: (each.start_offset, getattr(each, "lag", -1), each.error_code)
        for topic in group.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS))
def test_where_a_group_stands(version: int) -> None:
    mesh = Mesh()
    client = share_member(mesh)
    mesh.produce(0, 10)
    client.ask(ApiKey.SHARE_FETCH, 2, **fetch_values(1))
    said = topics(mesh, {0: [(0, 2, (1,)), (7, 8, (1,))]})
    client.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, **acknowledge_values(2, topics=said))
    lag = 5 if version >= 1 else -1
    assert described(mesh, version) == {0: (3, lag, 0)}, "3 to 6, and 9"
    named = ({"topic_name": ORDERS, "partitions": (0, 1, 9)},)
    found = described(mesh, version, named)
    assert found[0] == (3, lag, 0)
    assert found[1] == (-1, 0 if version >= 1 else -1, 0), "nothing is committed, and nothing is there"
    assert found[9][2] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_group_that_nobody_knows_has_none() -> None:
    assert not described(Mesh(), 1)


def test_a_group_that_is_not_here_any_more() -> None:
    mesh = Mesh()
    mesh.upstreams[GROUP].stored[source(1)] = 5
    assert described(mesh, 1) == {1: (5, -1, 0)}
