"""Frames: however the bytes arrive, the same frames come out; and lengths are judged before their bytes are there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.errors import ProtocolError
from mesh.wire.frames import MAX_REQUEST_BYTES, FrameSplitter, with_length
from tests.wire.entities import frame


def test_pieces_become_one_frame_with_its_length() -> None:
    whole = with_length([memoryview(frame(b"abc"))[:5], b"", bytearray(b"xyz")])
    assert whole == frame(b"axyz") and not whole.readonly


@given(bodies=st.lists(st.binary(max_size=20), max_size=6), cuts=st.lists(st.integers(1, 30), max_size=20))
def test_cut_anywhere(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, bodies))
    splitter = FrameSplitter()
    received = []
    for cut in cuts:
        received += splitter.receive_data(stream[:cut])
        stream = stream[cut:]
    received += splitter.receive_data(stream)
    assert received == bodies


def test_byte_by_byte() -> None:
    splitter = FrameSplitter()
    stream = frame(b"one") + frame(b"") + frame(b"three")
    received = [(place, splitter.receive_data(stream[place : place + 1])) for place in range(len(stream))]
    assert [(place, frames) for place, frames in received if frames] == [
        (6, [b"one"]),
        (10, [b""]),
        (19, [b"three"]),
    ]


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_REQUEST_BYTES + 1, 2**31 - 1])
def test_a_length_out_of_bounds_is_refused_as_soon_as_it_is_there(length: int) -> None:
    splitter = FrameSplitter()
    announced = length.to_bytes(4, "big", signed=True)
    assert splitter.receive_data(announced[:3]) == []
    with pytest.raises(ProtocolError) as caught:
        splitter.receive_data(announced[3:])
    assert caught.value.reason == "frame_size"


def test_the_longest_frame_there_may_be() -> None:
    body = bytes(MAX_REQUEST_BYTES)
    assert FrameSplitter().receive_data(frame(body)) == [body]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_frames_are_bytes_of_their_own(kind: type) -> None:
    received = bytearray(frame(b"body"))
    (body,) = FrameSplitter().receive_data(kind(received))
    received[:] = bytes(len(received))
    assert body == b"body"
