"""Fetch answers are cut into batches in place: records that a consumer must not see are skipped, and counted as
skipped."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import CorruptBatch
from mesh.records.encode import encode_batch
from mesh.records.fetched import split_into_runs
from mesh.records.runs import rebase, singles

TRANSACTIONAL, CONTROL = 0x10, 0x20


def batch(
    base: int, count: int = 1, *, producer: int = -1, attributes: int = 0, records: int | None = None
) -> bytearray:
    """A batch of `count` offsets from `base` on; records: how many are left after compaction."""
    data = bytearray(encode_batch(base, [(base + at, 1, b"k", b"v", None) for at in range(count)]).data)
    struct.pack_into(">h", data, 21, attributes)
    struct.pack_into(">q", data, 43, producer)
    if records is not None:
        struct.pack_into(">i", data, 57, records)
    return data


def marker(base: int, producer: int) -> bytearray:
    return batch(base, producer=producer, attributes=TRANSACTIONAL | CONTROL)


def spans(
    records: bytearray, position: int, aborted: tuple[tuple[int, int], ...] = ()
) -> tuple[list[tuple[int, int]], int]:
    cut = split_into_runs(memoryview(records), position, aborted)
    return [(max(each.base, run.first), each.last) for run in cut.batches for each in singles(run)], cut.position


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=6), st.integers(0, 200), st.integers(0, 40))
def test_whole_batches_from_the_position_on(shapes: list[tuple[int, int]], cut_off: int, position: int) -> None:
    """shapes: the number of records, and of missing offsets behind them."""
    records, base, expected, ends = bytearray(), 0, [], []
    for count, gap in shapes:
        records += batch(base, count)
        expected.append((base, base + count - 1))
        ends.append(len(records))
        base += count + gap
    data = records[: max(len(records) - cut_off, 0)]
    whole = [span for span, end in zip(expected, ends, strict=True) if end <= len(data)]
    found, after = spans(data, position)
    assert found == [(max(first, position), last) for first, last in whole if last >= position]
    assert after == max([position, *(last + 1 for _, last in whole)])
    assert len(split_into_runs(memoryview(data), position).batches) == bool(found)


def test_batches_are_the_given_bytes_unless_copied() -> None:
    records = batch(7, 3)
    (in_place,) = split_into_runs(memoryview(records), 7).batches
    (copied,) = split_into_runs(memoryview(records), 7, copied=True).batches
    rebase(in_place, 1 << 40)
    assert records[:8] == (1 << 40).to_bytes(8, "big")
    assert bytes(copied.data) == batch(7, 3)
    assert (in_place.base, in_place.first, in_place.last, in_place.record_count) == (7, 7, 9, 3)


def test_control_batches_are_passed_over() -> None:
    records = batch(0, 2, producer=5, attributes=TRANSACTIONAL) + marker(2, 5)
    assert spans(records, 0) == ([(0, 1)], 3)
    assert spans(marker(2, 5), 2) == ([], 3)


def test_what_is_passed_over_ends_no_run() -> None:
    """Batches of small transactions are one run, in its own bytes, without the markers."""
    batches = [batch(base, 2, producer=5, attributes=TRANSACTIONAL) for base in (0, 3, 6)]
    records = bytearray().join(each + marker(base, 5) for each, base in zip(batches, (2, 5, 8), strict=True))
    (run,) = split_into_runs(memoryview(records), 1).batches
    assert (run.base, run.first, run.last, run.record_count) == (0, 1, 7, 6)
    assert bytes(run.data) == b"".join(batches)
    assert [(each.base, each.first, each.last, bytearray(each.data)) for each in singles(run)] == [
        (0, 1, 1, batches[0]),
        (3, 2, 4, batches[1]),
        (6, 5, 7, batches[2]),
    ]
    rebase(run, 100)
    assert [int.from_bytes(each.data[:8], "big") for each in singles(run)] == [100, 103, 106]


def test_aborted_batches_are_passed_over_until_their_marker() -> None:
    """Two producers with interleaved transactions; the second transaction of the first producer is committed."""
    records = (
        batch(0, 2, producer=1, attributes=TRANSACTIONAL)
        + batch(2, 1, producer=2, attributes=TRANSACTIONAL)
        + batch(3, 2)
        + batch(5, 1, producer=1, attributes=TRANSACTIONAL)
        + marker(6, 1)
        + batch(7, 1, producer=2, attributes=TRANSACTIONAL)
        + marker(8, 2)
        + batch(9, 1, producer=1, attributes=TRANSACTIONAL)
        + marker(10, 1)
    )
    assert spans(records, 0, ((1, 0),)) == ([(2, 2), (3, 4), (7, 7), (9, 9)], 11)
    assert spans(records, 0, ((2, 2), (1, 0))) == ([(3, 4), (9, 9)], 11)
    assert spans(records, 0) == ([(0, 1), (2, 2), (3, 4), (5, 5), (7, 7), (9, 9)], 11)


def test_a_fetch_that_begins_inside_an_aborted_transaction() -> None:
    records = batch(5, 1, producer=1, attributes=TRANSACTIONAL) + marker(6, 1) + batch(7)
    assert spans(records, 5, ((1, 0),)) == ([(7, 7)], 8)


def test_what_is_not_transactional_is_never_aborted() -> None:
    records = batch(0, producer=1) + batch(1, producer=1, attributes=TRANSACTIONAL) + marker(2, 1)
    assert spans(records, 0, ((1, 0),)) == ([(0, 0)], 3)


def test_a_batch_that_compaction_has_emptied_is_passed_over() -> None:
    assert spans(batch(0, 4, records=0) + batch(4), 0) == ([(4, 4)], 5)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_format_ends_the_batches(magic: int) -> None:
    records = batch(0, 2) + batch(2)
    records[len(batch(0, 2)) + 16] = magic
    cut = split_into_runs(memoryview(records), 0)
    assert [(each.first, each.last) for each in cut.batches] == [(0, 1)]
    assert (cut.position, cut.is_old_format) == (2, True)


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize(
    ("at", "layout", "value"), [(16, ">b", 3), (8, ">i", 48), (0, ">q", -1), (23, ">i", -1), (57, ">i", 9)]
)
def test_what_is_no_batch_is_refused_wherever_it_stands(at: int, layout: str, value: int, before: int) -> None:
    good = bytearray().join(batch(2 * number, 2) for number in range(before))
    records = batch(2 * before, 2)
    struct.pack_into(layout, records, at, value)
    with pytest.raises(CorruptBatch):
        split_into_runs(memoryview(good + records), 0)


KINDS = st.sampled_from(["plain", "plain", "plain", "emptied", "open 1", "open 2", "marker 1", "marker 2", "gap"])


@given(st.lists(KINDS, max_size=25), st.integers(0, 10), st.sets(st.integers(0, 3)), st.booleans())
def test_what_is_passed_over_stands_anywhere(kinds: list[str], position: int, aborted: set[int], copied: bool) -> None:
    """aborted: the numbers of aborted transactions, in the order of their beginning."""
    records, end, epoch, begun = bytearray(), 0, -1, 0
    kept: list[tuple[int, int]] = []
    listed: list[tuple[int, int]] = []
    is_open: dict[int, bool] = {}
    base = 0
    for kind in kinds:
        producer = int(kind[-1]) if kind[-1].isdigit() else -1
        if kind == "gap":
            base += 20_000
            continue
        if kind.startswith("open") and producer not in is_open:
            is_open[producer] = begun in aborted
            listed += [(producer, base)] if begun in aborted else []
            begun += 1
        if kind.startswith("marker"):
            one = marker(base, producer)
            is_open.pop(producer, None)
        elif kind == "emptied":
            one = batch(base, 3, records=0)
        else:
            one = batch(base, 3, producer=producer, attributes=TRANSACTIONAL if producer > 0 else 0)
            if base + 2 >= position and not is_open.get(producer, False):
                kept.append((max(base, position), base + 2))
        struct.pack_into(">i", one, 12, epoch := len(records))
        records += one
        base = end = base + (1 if kind.startswith("marker") else 3)
    cut = split_into_runs(memoryview(records), position, listed, copied=copied)
    assert [(max(each.base, run.first), each.last) for run in cut.batches for each in singles(run)] == kept
    assert len(cut.batches) == sum(here[0] - before[1] > 10_001 for before, here in pairwise(kept)) + bool(kept)
    assert [run.record_count for run in cut.batches] == [3 * len(singles(run)) for run in cut.batches]
    assert (cut.position, cut.epoch) == (max(position, end), epoch)
