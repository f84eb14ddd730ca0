"""CRC32C after a change, compared with a CRC over all bytes."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.crc_shift import patched

FRONT = st.binary(max_size=40)
CHANGES = st.integers(0, 12).flatmap(lambda size: st.tuples(*[st.binary(min_size=size, max_size=size)] * 2))
BEHIND = st.binary(max_size=70) | st.integers(0, 70_000).map(lambda size: bytes([7]) * size)


@given(FRONT, CHANGES, BEHIND)
def test_it_is_that_of_the_changed_bytes(front: bytes, change: tuple[bytes, bytes], behind: bytes) -> None:
    before, after = change
    found = patched(crc32c(front + before + behind), before, after, len(behind))
    assert found == crc32c(front + after + behind)


@given(FRONT, CHANGES, BEHIND, st.integers(1, 0xFFFFFFFF))
def test_a_wrong_one_stays_as_wrong(front: bytes, change: tuple[bytes, bytes], behind: bytes, wrong: int) -> None:
    before, after = change
    found = patched(crc32c(front + before + behind) ^ wrong, before, after, len(behind))
    assert found == crc32c(front + after + behind) ^ wrong


def test_much_behind() -> None:
    behind = b"kafka-mesh" * 10_000_019
    assert patched(crc32c(b"before" + behind), b"before", b"-after", len(behind)) == crc32c(b"-after" + behind)


def test_what_is_changed_keeps_its_length() -> None:
    with pytest.raises(ValueError, match="2 bytes in place of 3"):
        patched(0, b"abc", b"ab", 0)
