"""The acks of a Produce request, as far as the request has come."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.errors import ProtocolError
from mesh.wire.produce_head import MOST_TAGS, acks_of
from mesh.wire.writer import encode_unsigned_varint

RECORDS = b"records"
TEXTS = st.none() | st.binary(max_size=300)
TAGS = st.dictionaries(st.integers(0, 300), st.binary(max_size=200), max_size=MOST_TAGS).map(
    lambda tags: sorted(tags.items())
)


def text(content: bytes | None) -> bytes:
    return pack(">h", -1) if content is None else pack(">h", len(content)) + content


def compact(content: bytes | None) -> bytes:
    return b"\0" if content is None else encode_unsigned_varint(len(content) + 1) + content


def head(version: int, client_id: bytes | None, tags: list[tuple[int, bytes]], transactional_id: bytes | None) -> bytes:
    """All bytes in front of acks."""
    begin = bytes(4) + pack(">hhi", 0, version, 7) + text(client_id)
    if version < 9:
        return begin + text(transactional_id)
    fields = b"".join(
        encode_unsigned_varint(tag) + encode_unsigned_varint(len(content)) + content for tag, content in tags
    )
    return begin + encode_unsigned_varint(len(tags)) + fields + compact(transactional_id)


@given(st.sampled_from([3, 8, 9, 13]), TEXTS, TAGS, TEXTS, st.integers(-1, 1))
def test_known_as_soon_as_they_have_come(
    version: int, client_id: bytes | None, tags: list[tuple[int, bytes]], transactional_id: bytes | None, acks: int
) -> None:
    begin = head(version, client_id, tags, transactional_id)
    frame = memoryview(begin + pack(">h", acks) + RECORDS)
    for length in range(4 + 8, len(begin) + 2):
        assert acks_of(version, frame[:length]) is None
    for length in (len(begin) + 2, len(frame)):
        assert acks_of(version, frame[:length]) == acks


def test_a_null_in_two_bytes() -> None:
    begin = bytes(4) + pack(">hhi", 0, 9, 7) + text(b"me") + b"\0" + b"\x80\0"
    assert [acks_of(9, begin + pack(">h", acks) + RECORDS) for acks in (-1, 0, 1)] == [-1, 0, 1]


@pytest.mark.parametrize(
    ("version", "behind", "reason"),
    [
        (3, pack(">h", -2), "invalid_length"),
        (3, pack(">hh", -1, -3), "invalid_length"),
        (9, pack(">h", -1) + encode_unsigned_varint(MOST_TAGS + 1), "too_many_elements"),
        (9, pack(">h", -1) + b"\0" + b"\xff" * 5, "invalid_varint"),
        (9, pack(">h", -1) + b"\2\5\0\5\0", "invalid_tag"),
        (9, pack(">h", -1) + b"\2\5\1x\4\0", "invalid_tag"),
    ],
)
def test_what_does_not_fit(version: int, behind: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        acks_of(version, bytes(4) + pack(">hhi", 0, version, 7) + behind + bytes(100))
    assert raised.value.reason == reason


def test_a_length_beyond_everything_waits_for_more() -> None:
    assert acks_of(9, bytes(4) + pack(">hhi", 0, 9, 7) + pack(">h", -1) + b"\0" + b"\xff\xff\xff\xff\x7f") is None
