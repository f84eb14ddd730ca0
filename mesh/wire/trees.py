"""The bodies of messages as trees: any API in any version, with or without a message class.

A tree is a dictionary of the fields of a struct, under Kafka's names in snake case. Structs in it are trees, arrays are
lists. Numbers, error codes and times are int. Ids are UUID, including the zero id. Bytes and records are bytes. Records
to write may be any buffer, or a tuple of several. Null is None.

Trees are for answers and requests that are divided and joined. Messages that only pass through never become trees: see
`mesh.wire.entities`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import error as StructError
from typing import Any, Final
from uuid import UUID

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.bodies import Body
from mesh.wire.entities import Direction
from mesh.wire.entities.layouts import layout
from mesh.wire.errors import ProtocolError
from mesh.wire.frames import with_length
from mesh.wire.messages import Buffer
from mesh.wire.reader import Cursor, ViewCursor
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.spans import MAX_REQUEST_ELEMENTS
from mesh.wire.tree_codecs import ZERO_ID, EncodedElements, Struct, Tree, struct_of

__all__ = [
    "ZERO_ID",
    "EncodedElements",
    "Tree",
    "encode_elements",
    "read_request",
    "read_tree",
    "read_views",
    "topic_of",
    "write_pieces",
    "write_tree",
]

MAX_ANSWER_ELEMENTS: Final = 1_000_000
"""The same for a broker's answer: enough for the Metadata of a hundred thousand partitions. For requests see
`MAX_REQUEST_ELEMENTS`."""


def read_tree(api_key: ApiKey, version: int, side: Direction, body: Buffer) -> Tree:
    """Reads the body of a message, with every field of the version.

    Bytes after the body are ignored, as by brokers and clients. Raises ProtocolError for an invalid body, ValueError
    for a version that is not relayed.
    """
    return _read(api_key, version, side, Cursor(bytes(body)))


def read_request(api_key: ApiKey, version: int, frame: memoryview, body: int) -> tuple[Tree, memoryview]:
    """Reads a request like `read_tree`. Returns also the frame to pass on, in which a broker finds nothing but the
    tree.

    That is the same frame, unless it has unknown tagged fields, bytes after the body, or text that is not UTF-8; then
    the body is written again. frame: with its length. body: the position of the body. Raises ProtocolError.
    """
    cursor = Cursor(bytes(frame[body:]))
    tree = _read(api_key, version, Direction.REQUEST, cursor)
    if not cursor.is_lossy and cursor.position == len(cursor.data):
        return tree, frame
    try:
        written = write_tree(api_key, version, Direction.REQUEST, tree)
    except ValueError as problem:
        raise ProtocolError("invalid_length", str(problem)) from problem
    return tree, with_length([frame[:body], written])


def read_views(api_key: ApiKey, version: int, side: Direction, body: memoryview) -> Tree:
    """Reads a body like `read_tree`. Records are slices of the body, which must not change while they are in use."""
    return _read(api_key, version, side, ViewCursor(body))


def topic_of(element: Tree) -> str | UUID:
    """Returns the topic that an element of a Fetch or ShareFetch is about: its id if it has one, else its name."""
    topic_id: UUID = element.get("topic_id", ZERO_ID)
    return topic_id if topic_id != ZERO_ID or "topic" not in element else str(element["topic"])


def _read(api_key: ApiKey, version: int, side: Direction, cursor: Cursor) -> Tree:
    cursor.elements_left = MAX_REQUEST_ELEMENTS if side is Direction.REQUEST else MAX_ANSWER_ELEMENTS
    return _codec(api_key, version, side).read(cursor)


def write_tree(api_key: ApiKey, version: int, side: Direction, tree: Tree) -> bytes:
    """Writes a body, without header.

    A field that is missing in the tree, or None in a version without null, gets its default. A field that the version
    lacks is left out. So one tree can be written in every version. Raises ValueError for a value that cannot be
    encoded, and for a version that is not relayed.
    """
    body = bytearray()
    _write(api_key, version, side, tree, body)
    return bytes(body)


def write_pieces(api_key: ApiKey, version: int, side: Direction, tree: Tree) -> list[Buffer]:
    """Writes a body like `write_tree`, in pieces. The pieces with records are the same objects as in the tree."""
    body = Body()
    _write(api_key, version, side, tree, body)
    return body.pieces()


def _write(api_key: ApiKey, version: int, side: Direction, tree: Tree, body: bytearray) -> None:
    try:
        _codec(api_key, version, side).write(tree, body)
    except StructError as error:
        raise ValueError(f"{api_key.name} v{version}: {error}") from error


def encode_elements(
    api_key: ApiKey, version: int, side: Direction, name: str, elements: Sequence[Any]
) -> EncodedElements:
    """Encodes elements of an array in the body, to be put into trees that are written in this version. Raises
    ValueError."""
    return _codec(api_key, version, side).encode_elements(name, elements)


@cache
def _codec(api_key: ApiKey, version: int, side: Direction) -> Struct:
    if api_key not in RELAYED_APIS or version not in RELAYED_APIS[api_key].all():
        raise ValueError(f"{api_key.name} v{version} is not relayed")
    return struct_of(layout(api_key, version, side), is_flexible(api_key, version))
