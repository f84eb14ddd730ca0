"""Spans of a frame are bounded by its bytes, and joined again around what replaces some of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.errors import ProtocolError
from mesh.wire.reader import Cursor
from mesh.wire.spans import Spans, encoded_count, encoded_text


def spans(data: bytes, position: int = 0) -> Spans:
    return Spans(memoryview(data), position)


def test_pieces_are_slices_around_what_is_replaced() -> None:
    frame = memoryview(b"0123456789")
    read = Spans(frame, 0)
    read.replace(2, 4, b"new")
    read.replace(4, 5, b"")
    read.insert(0, 0, 1, b"first")
    assert [bytes(piece) for piece in read.pieces()] == [b"first", b"1", b"new", b"56789"]
    assert [piece.obj is frame.obj for piece in read.pieces() if isinstance(piece, memoryview)] == [True, True]
    assert (read.grown_by(0), read.grown_by(1)) == (4, 0)


def test_nothing_replaced_is_one_piece_and_nothing_none() -> None:
    assert spans(b"abc").pieces() == [b"abc"]
    assert spans(b"").pieces() == []


def test_what_is_replaced_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.wire.spans.MAX_REPLACED", 2)
    read = spans(b"0123")
    read.replace(0, 1, b"a")
    read.replace(1, 2, b"b")
    with pytest.raises(ProtocolError, match="more than 2 spans"):
        read.replace(2, 3, b"c")


def test_elements_and_tagged_fields_are_counted_over_the_whole_frame() -> None:
    read = Spans(memoryview(b"\0\0\0\2\3\1" + bytes(9)), 0, most_elements=5)
    assert (read.count(1, False), read.count(1, True), read.tag_count()) == (2, 2, 1)
    read.position = 5
    with pytest.raises(ProtocolError, match="elements in one request"):
        read.tag_count()


@given(st.binary(max_size=8))
def test_lengths_are_those_of_the_reader(data: bytes) -> None:
    read, cursor = spans(data), Cursor(data)
    try:
        expected = cursor.compact_length()
    except ProtocolError as error:
        with pytest.raises(ProtocolError) as caught:
            read.compact_length()
        assert caught.value.reason == error.reason
    else:
        assert (read.compact_length(), read.position) == (expected, cursor.position)


def test_numbers_are_big_endian_and_have_a_sign() -> None:
    read = spans(b"\xff\xff\xfe\xff\xff\xff\xfd" + b"\xff" * 7 + b"\xfc")
    assert [read.int8(), read.int16(), read.int32(), read.int64()] == [-1, -2, -3, -4]
    for read_number in (read.int8, read.int16, read.int32, read.int64):
        with pytest.raises(ProtocolError, match="0 left"):
            read_number()


def test_nothing_is_read_behind_the_end() -> None:
    read = spans(b"\x02\x00\x00\x00")
    read.end = 1
    assert read.unsigned_varint() == 2
    with pytest.raises(ProtocolError):
        read.unsigned_varint()
    with pytest.raises(ProtocolError):
        read.skip(1)


def test_a_position_behind_the_frame_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        spans(b"ab", 7).int8()


@pytest.mark.parametrize("length", [-1, 3])
def test_a_length_that_does_not_fit_is_an_error(length: int) -> None:
    with pytest.raises(ProtocolError):
        spans(b"ab").text(length)


def test_counts_and_tags_need_their_bytes() -> None:
    assert spans(b"\x00\x00\x00\x01abcd").count(4, is_flexible=False) == 1
    assert spans(b"\x00").count(4, is_flexible=True) == -1
    for data, is_flexible in ((b"\x00\x00\x00\x02abcd", False), (b"\x03abcd", True)):
        with pytest.raises(ProtocolError):
            spans(data).count(4, is_flexible)
    with pytest.raises(ProtocolError, match="4 bytes announced at 1, 2 left"):
        spans(b"\x02\x00\x00").skip_tagged_fields()
    with pytest.raises(ProtocolError, match="tag 4 after tag 5: tags must ascend"):
        spans(b"\x02\x05\x00\x04\x00").skip_tagged_fields()
    with pytest.raises(ProtocolError, match="announced at 5, 0 left"):
        spans(b"\xff\xff\xff\xff\x0f").skip_tagged_fields()


def test_texts_and_counts_are_encoded_as_they_are_read() -> None:
    for text in ("", "ü", "x" * 300):
        for is_flexible in (False, True):
            read = spans(encoded_text(text, is_flexible))
            assert read.text(read.compact_length() if is_flexible else read.int16()) == text
    assert spans(encoded_count(300, True) + bytes(300)).count(1, True) == 300
    assert spans(encoded_count(3, False) + bytes(3)).count(1, False) == 3
    with pytest.raises(ValueError, match="32767"):
        encoded_text("x" * 40_000, True)
