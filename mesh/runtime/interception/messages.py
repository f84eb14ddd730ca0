"""Produce and Fetch messages for interceptors: parsed, and written again with changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.produce_batches import without_header_tags
from mesh.wire.reader import INT16, INT32
from mesh.wire.spans import Spans
from mesh.wire.text import text_of
from mesh.wire.trees import Tree, read_request, read_tree, write_tree

TopicKey: TypeAlias = str | UUID
"""A topic in a message: its name or its id."""

_CLIENT_ID_AT: Final = 12
_LARGEST_LENGTH: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request that was read. frame: the frame with its length, in which a broker finds nothing but the tree. body:
    the position of the body in the frame."""

    head: RequestHead
    frame: memoryview
    body: int
    tree: Tree

    @classmethod
    def of(cls, head: RequestHead, frame: memoryview) -> ReadRequest:
        """Reads a request. Raises ProtocolError."""
        api_key = ApiKey(head.api_key)
        frame, body = without_header_tags(api_key, head.api_version, frame)
        tree, frame = read_request(api_key, head.api_version, frame, body)
        return cls(head._replace(length=len(frame) - INT32.size), frame, body, tree)

    @property
    def client_id(self) -> str | None:
        (length,) = INT16.unpack_from(self.frame, _CLIENT_ID_AT)
        start = _CLIENT_ID_AT + INT16.size
        return None if length < 0 else text_of(self.frame[start : start + length])

    def with_tree(self, tree: Tree) -> list[Buffer]:
        """The frame with another body. Raises ValueError if it becomes too long."""
        body = write_tree(ApiKey(self.head.api_key), self.head.api_version, Direction.REQUEST, tree)
        header = self.frame[INT32.size : self.body]
        return [_length(len(header) + len(body)), header, body]

    def changed(self, tree: Tree) -> ReadRequest:
        """Returns the request with another tree. Raises ValueError if it becomes too long."""
        frame = memoryview(b"".join(self.with_tree(tree)))
        return ReadRequest(self.head._replace(length=len(frame) - INT32.size), frame, self.body, tree)

    def answered(self, tree: Tree) -> list[Buffer]:
        """Returns the frame of a response that the mesh makes itself."""
        api_key, version = ApiKey(self.head.api_key), self.head.api_version
        body = write_tree(api_key, version, Direction.RESPONSE, tree)
        tags = b"\0" if has_tagged_response_header(api_key, version) else b""
        header = INT32.pack(self.head.correlation_id) + tags
        return [_length(len(header) + len(body)), header, body]


def body_of_answer(head: RequestHead, answer: memoryview) -> Spans:
    """Returns a response, which begins with its length, at the position of its body. Raises ProtocolError."""
    spans = Spans(answer, 2 * INT32.size)
    if has_tagged_response_header(ApiKey(head.api_key), head.api_version):
        spans.skip_tagged_fields()
    return spans


def read_answer(head: RequestHead, answer: memoryview) -> tuple[int, Tree]:
    """Returns the position of the body in a response, which begins with its length, and the content. Raises
    ProtocolError."""
    start = body_of_answer(head, answer).position
    return start, read_tree(ApiKey(head.api_key), head.api_version, Direction.RESPONSE, answer[start:])


def written_answer(head: RequestHead, answer: memoryview, start: int, tree: Tree) -> list[Buffer]:
    """Returns a response with another body. start: the position of the body. Raises ValueError if it becomes too
    long."""
    body = write_tree(ApiKey(head.api_key), head.api_version, Direction.RESPONSE, tree)
    header = answer[INT32.size : start]
    return [_length(len(header) + len(body)), header, body]


def key_of(topic: Tree) -> TopicKey:
    """The name or the id of a topic, in any of these messages and in any version."""
    if "topic_id" in topic:
        key: TopicKey = topic["topic_id"]
        return key
    name: str = topic["name"] if "name" in topic else topic["topic"]
    return name


def topics_of_produce(head: RequestHead, frame: memoryview) -> tuple[list[TopicKey], int] | None:
    """Returns the topics and the acks of a Produce request, without copying its records. Raises ProtocolError.

    None for a request with tagged fields, or bytes after the last field: it must not pass as it is.
    """
    flexible = is_flexible(ApiKey.PRODUCE, head.api_version)
    plain, body = without_header_tags(ApiKey.PRODUCE, head.api_version, frame)
    if plain is not frame:
        return None
    spans = Spans(frame, body)
    topics: list[TopicKey] = []
    is_tagged = False
    _text(spans, flexible)
    acks = spans.int16()
    spans.skip(INT32.size)
    for _ in range(max(spans.count(3, flexible), 0)):
        if head.api_version >= _FIRST_PRODUCE_BY_ID:
            spans.skip(16)
            topics.append(UUID(bytes=bytes(frame[spans.position - 16 : spans.position])))
        else:
            topics.append(_text(spans, flexible))
        for _ in range(max(spans.count(5, flexible), 0)):
            spans.int32()
            length = spans.compact_length() if flexible else spans.int32()
            spans.skip(max(length, 0))
            if flexible:
                is_tagged |= spans.skip_tagged_fields()
        if flexible:
            is_tagged |= spans.skip_tagged_fields()
    if flexible:
        is_tagged |= spans.skip_tagged_fields()
    return None if is_tagged or spans.position < len(frame) else (topics, acks)


_FIRST_PRODUCE_BY_ID: Final = 13


def _text(spans: Spans, flexible: bool) -> str:
    length = max(spans.compact_length() if flexible else spans.int16(), 0)
    spans.skip(length)
    return text_of(spans.frame[spans.position - length : spans.position])


def _length(size: int) -> bytes:
    if size > _LARGEST_LENGTH:
        raise ValueError(f"a frame of {size} bytes")
    return INT32.pack(size)
