"""Answers to Produce in which nothing is changed, and which carry no error, are known by a short look."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.addresses import carries_addresses, with_addresses
from mesh.wire.apis import ApiKey
from mesh.wire.first_errors import first_error
from mesh.wire.plain_answers import FIRST_VERSION, is_plain_produce_answer
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.writer import encode_unsigned_varint

VERSIONS = range(FIRST_VERSION, RELAYED_APIS[ApiKey.PRODUCE].highest + 1)
each_version = pytest.mark.parametrize("version", VERSIONS)


class Nowhere:
    """Fails if any address is asked for."""

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        raise AssertionError((node, host, port))


def partition(
    index: int = 0, error: int = 0, *, errors: bytes = b"\x01", text: bytes = b"\0", tags: bytes = b"\0"
) -> bytes:
    return pack(">ihqqq", index, error, 1 << 40, -1, 7) + errors + text + tags


def topic(version: int, partitions: bytes, count: int, name: bytes = b"orders", tags: bytes = b"\0") -> bytes:
    named = bytes(range(16)) if version >= 13 else encode_unsigned_varint(len(name) + 1) + name
    return named + encode_unsigned_varint(count + 1) + partitions + tags


def answer(topics: bytes, count: int, *, header_tags: bytes = b"\0", tags: bytes = b"\0") -> memoryview:
    body = pack(">i", 7) + header_tags + encode_unsigned_varint(count + 1) + topics + pack(">i", 100) + tags
    return memoryview(pack(">i", len(body)) + body)


def plain(version: int) -> memoryview:
    two = topic(version, partition(0) + partition(11), 2)
    return answer(two + topic(version, b"", 0, b"t" * 126) + two, 3)


def sent_without_the_look(version: int, frame: memoryview) -> bytes:
    if not carries_addresses(ApiKey.PRODUCE, version):
        return bytes(frame)
    return b"".join(with_addresses(ApiKey.PRODUCE, version, frame[4:], Nowhere()))


@each_version
def test_one_with_offsets_alone_is_plain(version: int) -> None:
    frame = plain(version)
    assert is_plain_produce_answer(version, frame)
    assert sent_without_the_look(version, frame) == frame
    assert is_plain_produce_answer(version, answer(b"", 0))


@each_version
@pytest.mark.parametrize(
    "changed",
    [
        {"error": 6},
        {"errors": b"\x02\0\0\0\0\0\0", "error": 87},
        {"errors": b"\x02\0\0\0\0\0\0"},
        {"errors": b"\0"},
        {"text": b"\x01"},
        {"text": b"\x03no"},
        {"tags": b"\x01\0\x01\0"},
    ],
    ids=str,
)
def test_a_partition_that_says_more_is_not(version: int, changed: dict[str, Any]) -> None:
    topics = topic(version, partition(0) + partition(1, **changed) + partition(2), 3)
    assert not is_plain_produce_answer(version, answer(topics, 1))


@each_version
def test_tagged_fields_anywhere_else_are_seen(version: int) -> None:
    tagged = b"\x01\0\x01\0"
    good, marked = (topic(version, partition(), 1, tags=tags) for tags in (b"\0", tagged))
    assert is_plain_produce_answer(version, answer(good, 1))
    assert not is_plain_produce_answer(version, answer(marked, 1))
    assert not is_plain_produce_answer(version, answer(good, 1, header_tags=tagged))
    assert not is_plain_produce_answer(version, answer(good, 1, tags=tagged))


@each_version
def test_lengths_of_more_than_a_byte_are_left_to_the_walk(version: int) -> None:
    many = topic(version, b"".join(partition(index) for index in range(127)), 127)
    assert not is_plain_produce_answer(version, answer(many, 1))
    assert not is_plain_produce_answer(version, answer(topic(version, partition(), 1) * 127, 127))
    if version < 13:
        assert not is_plain_produce_answer(version, answer(topic(version, partition(), 1, b"t" * 127), 1))


@each_version
def test_what_is_no_answer_is_not_plain(version: int) -> None:
    frame = plain(version)
    for length in range(4, len(frame)):
        assert not is_plain_produce_answer(version, frame[:length])
    assert not is_plain_produce_answer(version, memoryview(bytes(frame) + b"\0"))


def test_older_versions_are_not_looked_at() -> None:
    assert not is_plain_produce_answer(8, plain(9))


@given(st.sampled_from(VERSIONS), st.data())
def test_what_is_plain_needs_no_walk_and_has_no_error(version: int, data: st.DataObject) -> None:
    """The test changes bytes of a plain answer at random; if it is still plain, the walk finds no error in it
    either."""
    frame = bytearray(plain(version))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    if is_plain_produce_answer(version, memoryview(frame)):
        assert first_error(ApiKey.PRODUCE, version, memoryview(frame)) == 0
        assert sent_without_the_look(version, memoryview(frame)) == frame
