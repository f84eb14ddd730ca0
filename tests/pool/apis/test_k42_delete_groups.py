from __future__ import annotations

import pytest

from mesh.pool.common.ids import GroupId
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, joined, versions
from tests.pool.harness import GROUP, source


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_only_groups_without_members(version: int) -> None:
    mesh = Mesh()
    joined(mesh)
    mesh.upstreams[GroupId("old")].stored[source(0)] = 7
    names = (GROUP, "old", "unknown", "")
    answer = Client(mesh, "tool").ask(ApiKey.DELETE_GROUPS, version, groups_names=names)
    assert {each.group_id: each.error_code for each in answer.results} == {
        GROUP: ErrorCode.NON_EMPTY_GROUP,
        "old": ErrorCode.NONE,
        "unknown": ErrorCode.GROUP_ID_NOT_FOUND,
        "": ErrorCode.INVALID_GROUP_ID,
    }
    assert "old" not in mesh.upstreams
