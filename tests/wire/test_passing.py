"""Streams that are cut into pieces: put together they are the frames again, and each head comes before its frame."""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.passing import AnswerCutter, AnswerHead, Piece, RequestCutter, RequestHead
from tests.wire.entities import frame

LIMIT = 64 * 1024
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
REQUEST = Struct(">hhi")
ANSWER = Struct(">i")
BODIES = st.binary(max_size=40)

REQUESTS = st.builds(
    lambda head, body: (RequestHead(REQUEST.size + len(body), *head), frame(REQUEST.pack(*head) + body)),
    st.tuples(INT16, INT16, INT32),
    BODIES,
)
ANSWERS = st.builds(
    lambda correlation_id, body: (
        AnswerHead(ANSWER.size + len(body), correlation_id),
        frame(ANSWER.pack(correlation_id) + body),
    ),
    INT32,
    BODIES,
)
SIZES = st.lists(st.integers(1, 60) | st.integers(1, 3), max_size=60)


@given(frames=st.lists(REQUESTS, max_size=8), sizes=SIZES)
def test_requests_cut_anywhere(frames: list[tuple[RequestHead, bytes]], sizes: list[int]) -> None:
    assert_cut(RequestCutter(LIMIT), 12, frames, sizes)


@given(frames=st.lists(ANSWERS, max_size=8), sizes=SIZES)
def test_answers_cut_anywhere(frames: list[tuple[AnswerHead, bytes]], sizes: list[int]) -> None:
    assert_cut(AnswerCutter(LIMIT), 8, frames, sizes)


@given(frames=st.lists(REQUESTS, max_size=4))
def test_byte_by_byte(frames: list[tuple[RequestHead, bytes]]) -> None:
    assert_cut(RequestCutter(LIMIT), 12, frames, [1] * 1_000)


def assert_cut(cutter: Any, head_size: int, frames: list[tuple[Any, bytes]], sizes: list[int]) -> None:
    stream = b"".join(data for _, data in frames)
    ends = {sum(len(data) for _, data in frames[:count]) for count in range(len(frames) + 1)}
    pieces: list[Piece[Any]] = []
    received = passed = 0
    for size in (*sizes, len(stream)):
        chunk = memoryview(bytearray(stream[received : received + size]))
        if not chunk:
            break
        received += len(chunk)
        more = cutter.cut(chunk)
        assert all(piece.buffer.obj is chunk.obj or len(piece.buffer) == head_size for piece in more)
        passed += sum(len(piece.buffer) for piece in more)
        assert received - head_size < passed <= received, "only what is left of a head is held back"
        assert cutter.is_unfinished is (received not in ends)
        pieces += more
    assert assembled(pieces) == frames


def assembled(pieces: list[Piece[Any]]) -> list[tuple[Any, bytes]]:
    """The frames and their heads, put together."""
    frames: list[tuple[Any, bytes]] = []
    is_inside = False
    for piece in pieces:
        assert piece.buffer, "no piece is empty"
        assert not piece.buffer.readonly
        assert (piece.head is None) is is_inside
        assert piece.is_whole is (piece.is_last and not is_inside)
        head, before = frames.pop() if is_inside else (piece.head, b"")
        frames.append((head, before + piece.buffer))
        is_inside = not piece.is_last
    assert not is_inside
    return frames


def test_frames_in_one_chunk_are_whole() -> None:
    first, second = frame(REQUEST.pack(1, 17, 5) + b"body"), frame(REQUEST.pack(18, 4, -1))
    chunk = memoryview(bytearray(first + second + first[:13]))
    pieces = RequestCutter(LIMIT).cut(chunk)
    assert [(piece.head, bytes(piece.buffer), piece.is_last, piece.is_whole) for piece in pieces] == [
        (RequestHead(length=12, api_key=1, api_version=17, correlation_id=5), first, True, True),
        (RequestHead(length=8, api_key=18, api_version=4, correlation_id=-1), second, True, True),
        (RequestHead(length=12, api_key=1, api_version=17, correlation_id=5), first[:13], False, False),
    ]


def test_a_head_that_two_chunks_share_is_a_piece_of_its_own() -> None:
    data = frame(ANSWER.pack(5) + b"body")
    cutter = AnswerCutter(LIMIT)
    assert cutter.cut(memoryview(bytearray(data[:7]))) == []
    pieces = cutter.cut(memoryview(bytearray(data[7:])))
    assert [(piece.head, bytes(piece.buffer), piece.is_last, piece.is_whole) for piece in pieces] == [
        (AnswerHead(length=8, correlation_id=5), data[:8], False, False),
        (None, b"body", True, False),
    ]


def test_the_middle_of_a_frame_is_the_very_chunk() -> None:
    cutter = AnswerCutter(1_000_000)
    cutter.cut(memoryview(bytearray(frame(bytes(1_000_000))[:100])))
    chunk = memoryview(bytearray(5_000))
    (piece,) = cutter.cut(chunk)
    assert piece.buffer is chunk
    assert cutter.is_unfinished


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 7, LIMIT + 1, 2**31 - 1])
@pytest.mark.parametrize("before", [b"", frame(REQUEST.pack(1, 17, 5))])
def test_a_length_out_of_bounds_is_refused_as_soon_as_it_is_there(length: int, before: bytes) -> None:
    announced = length.to_bytes(4, "big", signed=True)
    for cut in range(4):
        cutter = RequestCutter(LIMIT)
        cutter.cut(memoryview(bytearray(before + announced[:cut])))
        assert cutter.cut(memoryview(bytearray(announced[cut:]))) == []
        assert cutter.problem is not None
        assert cutter.problem.reason == "frame_size"
    cutter = RequestCutter(LIMIT)
    pieces = cutter.cut(memoryview(bytearray(before + announced + bytes(8))))
    assert b"".join(piece.buffer for piece in pieces) == before
    assert cutter.problem is not None


def test_the_shortest_answer_is_shorter_than_the_shortest_request() -> None:
    (piece,) = AnswerCutter(LIMIT).cut(memoryview(bytearray(frame(bytes(4)))))
    assert piece.is_whole
    cutter = AnswerCutter(LIMIT)
    cutter.cut(memoryview(bytearray(frame(bytes(3)))))
    assert "4 to 65536 are allowed" in str(cutter.problem)


def test_the_limit_may_change_between_chunks() -> None:
    cutter = RequestCutter(LIMIT)
    announced = frame(bytes(LIMIT + 1))[:20]
    cutter.cut(memoryview(bytearray(announced[:3])))
    cutter.limit = LIMIT + 1
    head, rest = cutter.cut(memoryview(bytearray(announced[3:])))
    assert head.head is not None
    assert head.head.length == LIMIT + 1
    assert len(rest.buffer) == 8
