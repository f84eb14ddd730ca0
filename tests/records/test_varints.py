"""Varints in the form of protocol buffers' sint64."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.varints import encode_varint, read_varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (64, "8001"),
        (-65, "8101"),
        (2**31 - 1, "feffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_encodings(value: int, encoded: str) -> None:
    assert encode_varint(value) == bytes.fromhex(encoded)
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_read_what_was_encoded(value: int, tail: bytes) -> None:
    encoded = encode_varint(value)
    assert read_varint(b"\xff" + encoded + tail, 1) == (value, 1 + len(encoded))


def test_one_without_an_end() -> None:
    with pytest.raises(ValueError, match="ten bytes"):
        read_varint(b"\xff" * 11, 0)
    with pytest.raises(IndexError):
        read_varint(b"\xff", 0)
