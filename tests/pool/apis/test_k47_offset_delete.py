from __future__ import annotations

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, joined
from tests.pool.harness import GROUP, ORDERS


def test_is_refused() -> None:
    mesh = Mesh()
    joined(mesh)
    topics = ({"name": ORDERS, "partitions": ({"partition_index": 0},)},)

    def delete(group: str) -> int:
        return int(Client(mesh, "tool").ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics).error_code)

    assert delete(GROUP) == ErrorCode.NON_EMPTY_GROUP
    assert delete("old") == ErrorCode.UNSUPPORTED_VERSION
    assert delete("") == ErrorCode.INVALID_GROUP_ID
