"""Where whole batches end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import RecordBatch
from mesh.records.whole_batches import End, end_of_whole_batches
from tests.records.strategies import batches


@given(st.lists(batches(), min_size=1, max_size=4), st.integers(0, 200))
def test_a_batch_that_was_cut_off_is_left_out(drawn: list[RecordBatch], cut: int) -> None:
    drawn.sort(key=lambda each: each.base)
    for one, next_one in pairwise(drawn):
        if next_one.base <= one.last:
            return
    data = b"".join(bytes(each.data) for each in drawn)
    data = data[: len(data) - min(cut, len(data))]
    size, found = 0, None
    for each in drawn:
        if size + len(each.data) > len(data):
            break
        size += len(each.data)
        found = End(size, each.last + 1)
    assert end_of_whole_batches(data) == found


@pytest.mark.parametrize("data", [b"", bytes(61), b"\xff" * 100], ids=["nothing", "zeros", "ones"])
def test_what_is_no_batch_has_no_end(data: bytes) -> None:
    assert end_of_whole_batches(data) is None
