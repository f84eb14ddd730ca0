"""Requests about streams groups in place of a client's request, and the node's responses to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mesh.runtime.interception.messages import ReadRequest, read_answer
from mesh.streams.steps import DescribedStreamsGroup
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.reader import INT16, INT32
from mesh.wire.trees import Tree, write_tree

_READ, _DELETE = 3, 6
"""Bits of authorized operations."""
_EMPTY: Final = "Empty"
_API_KEY_AT: Final = INT32.size
_NO_TAGS: Final = b"\0"


def in_version(request: ReadRequest, version: int) -> list[Buffer]:
    """Returns a request in another version with the same body."""
    at = _API_KEY_AT + INT16.size
    return [request.frame[:at], INT16.pack(version), request.frame[at + INT16.size :]]


def instead(request: ReadRequest, api_key: ApiKey, version: int, tree: Tree) -> list[Buffer]:
    """Returns another request of the same client, with the same correlation id."""
    body = write_tree(api_key, version, Direction.REQUEST, tree)
    header = bytes(request.frame[_API_KEY_AT + 2 * INT16.size : request.body])
    if is_flexible(api_key, version) and not is_flexible(ApiKey(request.head.api_key), request.head.api_version):
        header += _NO_TAGS
    size = 2 * INT16.size + len(header) + len(body)
    return [INT32.pack(size), INT16.pack(api_key), INT16.pack(version), header, body]


def describing(request: ReadRequest, groups: Sequence[str]) -> list[Buffer]:
    """Returns a request to describe groups, in place of a client's request about them."""
    tree = {"group_ids": list(groups), "include_authorized_operations": True}
    return instead(request, ApiKey.STREAMS_GROUP_DESCRIBE, 0, tree)


def head_instead(request: ReadRequest, api_key: ApiKey, version: int) -> RequestHead:
    """The head of a request that was sent in place of this one."""
    return request.head._replace(api_key=api_key, api_version=version)


def described(request: ReadRequest, answer: memoryview) -> dict[str, DescribedStreamsGroup]:
    """The groups in a response to `describing`, by name. Raises ProtocolError."""
    _, tree = read_answer(head_instead(request, ApiKey.STREAMS_GROUP_DESCRIBE, 0), answer)
    return {each["group_id"]: described_group(each) for each in tree["groups"]}


def described_group(tree: Tree) -> DescribedStreamsGroup:
    """A group in a response to StreamsGroupDescribe. If it has no authorized operations, everything is allowed."""
    operations = tree["authorized_operations"]
    topology = tree["topology"]
    return DescribedStreamsGroup(
        tree["group_id"],
        tree["error_code"],
        tree["error_message"],
        topology["epoch"] if topology is not None else -1,
        frozenset(each["member_id"] for each in tree["members"]),
        tree["group_state"] == _EMPTY,
        operations < 0 or bool(operations >> _READ & 1),
        operations < 0 or bool(operations >> _DELETE & 1),
    )
