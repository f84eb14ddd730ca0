"""The bodies of messages as trees: any API in any version, also where nobody has written a class for it.

A tree is a dictionary of the fields of a struct under Kafka's names in small letters; structs in it are trees, arrays
lists. Numbers are int, also error codes and times, ids are UUID, the zero one too; bytes and records are bytes. What is
null is None.

For answers and requests that are taken apart and put together. What only passes is never made a tree: see
`mesh.wire.entities`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import error as StructError
from typing import Any, Final

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities import Side
from mesh.wire.entities.layouts import layout
from mesh.wire.messages import Buffer
from mesh.wire.reader import Cursor
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.tree_codecs import ZERO_ID, Struct, Tree, Written, struct_of

__all__ = ["ZERO_ID", "Tree", "Written", "read_tree", "write_tree", "written"]

MAX_REQUEST_ELEMENTS: Final = 100_000
"""Elements of all arrays of a request together, and its tagged fields: a few hundred bytes of memory each."""
MAX_ANSWER_ELEMENTS: Final = 1_000_000
"""The same of a broker's answer: Metadata of a hundred thousand partitions."""


def read_tree(api_key: ApiKey, version: int, side: Side, body: Buffer) -> Tree:
    """The body of a message, every field of the version in it.

    What is behind the body is not looked at, as by brokers and clients. Raises ProtocolError for a body that does not
    fit, ValueError for a version that is not relayed.
    """
    cursor = Cursor(bytes(body))
    cursor.elements_left = MAX_REQUEST_ELEMENTS if side is Side.REQUEST else MAX_ANSWER_ELEMENTS
    return _codec(api_key, version, side).read(cursor)


def write_tree(api_key: ApiKey, version: int, side: Side, tree: Tree) -> bytes:
    """The body without its header.

    A field that the tree lacks, or that is None where the version has no null, has its default; what the version has no
    field for is left out: so one tree can be written in every version. Raises ValueError for a value that has no room,
    and for a version that is not relayed.
    """
    body = bytearray()
    try:
        _codec(api_key, version, side).write(tree, body)
    except StructError as error:
        raise ValueError(f"{api_key.name} v{version}: {error}") from error
    return bytes(body)


def written(api_key: ApiKey, version: int, side: Side, name: str, elements: Sequence[Any]) -> Written:
    """Elements of an array of the body, to be put into trees that are written in this version. Raises ValueError."""
    return _codec(api_key, version, side).written(name, elements)


@cache
def _codec(api_key: ApiKey, version: int, side: Side) -> Struct:
    if api_key not in RELAYED_APIS or version not in RELAYED_APIS[api_key].all():
        raise ValueError(f"{api_key.name} v{version} is not relayed")
    return struct_of(layout(api_key, version, side), is_flexible(api_key, version))
