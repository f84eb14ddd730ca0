"""The cursor's primitive types, in golden bytes."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from mesh.wire.errors import ProtocolError
from mesh.wire.reader import MAX_ELEMENTS, Cursor


@pytest.mark.parametrize(
    ("read", "data", "value"),
    [
        (Cursor.int8, b"\x80", -128),
        (Cursor.int16, b"\x80\0", -(2**15)),
        (Cursor.int32, b"\x7f\xff\xff\xff", 2**31 - 1),
        (Cursor.int64, b"\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
        (Cursor.boolean, b"\0", False),
        (Cursor.boolean, b"\x02", True),
        (Cursor.uuid, bytes(16), None),
        (Cursor.uuid, bytes(15) + b"\x05", UUID(int=5)),
        (Cursor.unsigned_varint, b"\x80\x80\x80\x80\x08", 2**31),
        (Cursor.unsigned_varint, b"\x85\x80\x80\x80\x00", 5),
        (Cursor.unsigned_varint, b"\x85\x80\x80\x80\x10", 5),
        (Cursor.string, b"\0\x02\xc3\xbc", "ü"),
        (Cursor.nullable_string, b"\xff\xff", None),
        (Cursor.nullable_string, b"\x80\0", None),
        (Cursor.nullable_string, b"\0\0", ""),
        (Cursor.nullable_string, b"\0\x02\xc3\x28", "\ufffd("),
        (Cursor.compact_string, b"\x03\xc3\xbc", "ü"),
        (Cursor.compact_nullable_string, b"\0", None),
        (Cursor.compact_nullable_string, b"\xff\xff\xff\xff\x0f", None),
        (Cursor.compact_nullable_string, b"\x81\x80\x80\x80\x08", None),
        (Cursor.compact_nullable_string, b"\x01", ""),
        (Cursor.byte_string, b"\0\0\0\x02\xff\0", b"\xff\0"),
        (Cursor.compact_byte_string, b"\x03\xff\0", b"\xff\0"),
        (Cursor.skip_byte_string, b"\0\0\0\x02\xff\0", None),
        (Cursor.skip_byte_string, b"\xff\xff\xff\xff", None),
        (Cursor.skip_byte_string, b"\xff\xff\xff\xfe", None),
        (Cursor.skip_compact_byte_string, b"\x03\xff\0", None),
        (Cursor.skip_compact_byte_string, b"\0", None),
        (Cursor.skip_tagged_fields, b"\x02\x05\x01a\x85\x01\0", None),
    ],
)
def test_golden(read: Callable[[Cursor], object], data: bytes, value: object) -> None:
    cursor = Cursor(b"before" + data, position=6)
    assert read(cursor) == value
    cursor.finish()
    with pytest.raises(ProtocolError) as caught:
        read(Cursor(data[:-1]))
    assert caught.value.reason == "truncated"


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (Cursor.string, b"\xff\xff"),
        (Cursor.compact_string, b"\0"),
        (Cursor.byte_string, b"\xff\xff\xff\xff"),
        (Cursor.compact_byte_string, b"\0"),
    ],
)
def test_negative_lengths(read: Callable[[Cursor], object], data: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(Cursor(data + bytes(100)))
    assert caught.value.reason == "invalid_length"


def test_a_count_is_bounded_by_the_bytes_left() -> None:
    assert Cursor(b"\0\0\0\x02" + bytes(8)).count(4) == 2
    assert Cursor(b"\x03" + bytes(8)).compact_count(4) == 2
    assert Cursor(b"\xff\xff\xff\xff").count(4) == Cursor(b"\x80\0\0\0").count(4) == -1
    assert Cursor(b"\xff\xff\xff\xff\x0f").compact_count(4) == -1
    for cut in (Cursor(b"\0\0\0\x02" + bytes(7)).count, Cursor(b"\x03" + bytes(7)).compact_count):
        with pytest.raises(ProtocolError) as caught:
            cut(4)
        assert caught.value.reason == "truncated"


def test_counts_add_up() -> None:
    half = (MAX_ELEMENTS // 2).to_bytes(4, "big")
    cursor = Cursor(half + half + b"\0\0\0\x01" + bytes(MAX_ELEMENTS))
    assert cursor.count(1) + cursor.count(1) == MAX_ELEMENTS
    with pytest.raises(ProtocolError) as caught:
        cursor.count(1)
    assert caught.value.reason == "too_many_elements"
