"""Fetch and ShareFetch answers made by kio, ways to have them walked, and the expected bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple

from hypothesis import strategies as st
from kio.index import load_response_schema

from mesh.wire.answer_walker import VERSIONS, AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.messages import Buffer
from tests.wire.entities import decode, encode, entities, sample

WALKED = [(api_key, version) for api_key, versions in VERSIONS.items() for version in versions]
ENDINGS = {ApiKey.FETCH: b"\x00", ApiKey.SHARE_FETCH: b"\x01\x00"}
"""The end of an answer without addresses."""
HEADER = bytes((0, 0, 0, 7, 0))
"""Correlation id 7, no tagged fields."""
HELD_AT_MOST = 16


class Answer(NamedTuple):
    """An answer: kio's entity and its frame; its addresses begin at `end`."""

    api_key: ApiKey
    version: int
    entity: Any
    frame: bytes
    end: int


def answer(api_key: ApiKey, version: int, entity: Any) -> Answer:
    end = len(HEADER) + len(encode(replace(entity, node_endpoints=()))) - len(ENDINGS[api_key])
    return Answer(api_key, version, entity, HEADER + encode(entity), end)


@cache
def sampled(api_key: ApiKey, version: int) -> Answer:
    return answer(api_key, version, sample(load_response_schema(api_key, version)))


@cache
def _entities(api_key: ApiKey, version: int) -> st.SearchStrategy[Any]:
    return entities(load_response_schema(api_key, version))


@st.composite
def answers(draw: st.DrawFn, largest: int = 50_000) -> Answer:
    """largest: the most bytes of a partition's records."""
    api_key, version = draw(st.sampled_from(WALKED))
    entity = draw(_entities(api_key, version))
    if draw(st.booleans()):
        entity = replace(entity, node_endpoints=())
    sizes = st.none() | st.sampled_from([0, 1, 126, 127, 128, 16_382, 16_383]) | st.integers(0, largest)

    def with_records(partition: Any) -> Any:
        size = draw(sizes)
        return (
            partition
            if size is None or size > largest
            else replace(partition, records=(b"records-" * (size // 8 + 1))[:size])
        )

    topics = tuple(replace(topic, partitions=tuple(map(with_records, topic.partitions))) for topic in entity.responses)
    return answer(api_key, version, replace(entity, responses=topics))


def walk(walker: AnswerWalker, frame: bytes, sizes: Iterable[int]) -> bytes:
    """The bytes that passed when the frame came in chunks of these sizes, and the rest in one."""
    passed = bytearray()
    held = 0
    for start, end in pairwise(chain(_cuts(len(frame), sizes), [len(frame)])):
        chunk = memoryview(bytearray(frame[start:end]))
        for piece in walker.feed(chunk):
            passed += piece
            held += 0 if is_part(piece, chunk) else len(piece)
        assert end - HELD_AT_MOST <= len(passed) <= end
    assert held <= HELD_AT_MOST
    assert walker.is_done
    return bytes(passed)


def walk_in_every_way(api_key: ApiKey, version: int, frame: bytes) -> bytes:
    """The bytes that passed, which are the same for the whole frame, byte by byte, and cut once anywhere."""
    ways: list[Iterable[int]] = [(), repeat(1), *([cut] for cut in range(1, len(frame)))]
    (passed,) = {walk(AnswerWalker(api_key, version, len(frame)), frame, sizes) for sizes in ways}
    return passed


def _cuts(length: int, sizes: Iterable[int]) -> Iterable[int]:
    position = 0
    for size in sizes:
        if position >= length:
            return
        yield position
        position += size
    if position < length:
        yield position


def is_part(piece: Buffer, chunk: memoryview) -> bool:
    return isinstance(piece, memoryview) and piece.obj is chunk.obj


def assert_hidden(given: Answer, passed: bytes) -> None:
    """Asserts that no address is left, that one tagged field up to the end of the frame hides them, and that all else
    is unchanged."""
    api_key, version, entity, frame, end = given
    assert len(passed) == len(frame)
    assert passed[:end] == frame[:end]
    if not entity.node_endpoints:
        assert passed == frame
        return
    without = passed[len(HEADER) : end] + ENDINGS[api_key]
    assert decode(load_response_schema(api_key, version), without) == replace(entity, node_endpoints=())
    assert_one_field(passed[end + len(ENDINGS[api_key]) - 1 :])
    assert passed[end : end + len(ENDINGS[api_key]) - 1] == ENDINGS[api_key][:-1]


def assert_one_field(tagged: bytes) -> None:
    """Asserts that these bytes are one tagged field, with a tag that no version knows, and with every number as short
    as possible."""
    count, tagged = _varint(tagged)
    tag, tagged = _varint(tagged)
    size, content = _varint(tagged)
    assert (count, len(content)) == (1, size)
    assert tag in (127, 128)


def _varint(data: bytes) -> tuple[int, bytes]:
    size = next(index for index, byte in enumerate(data, 1) if byte < 0x80)
    assert size == 1 or data[size - 1], "a last byte of 0 is not needed"
    return sum((byte & 0x7F) << 7 * index for index, byte in enumerate(data[:size])), data[size:]
