"""Acknowledgements as the metadata of a commit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.offsets.metadata import LONGEST, Unpacked, pack, unpack
from mesh.pool.offsets.payload import ForeignMetadata
from mesh.pool.state.delivery_counts import Counted
from mesh.records.spans import Span
from tests.pool.harness import source

HERE, THERE = source(0), source(1)
BASES = st.integers(0, 1 << 50)


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[Span]]:
    """A committed offset, and settled runs above it."""
    base = draw(BASES)
    position, spans = base, []
    for gap, count in draw(st.lists(st.tuples(st.integers(1, 1 << 20), st.integers(1, 1 << 20)), max_size=40)):
        spans.append(Span(position + gap, position + gap + count - 1))
        position += gap + count
    return base, spans


def test_the_form_that_is_stored() -> None:
    """Golden: a later version of the mesh must read the metadata of this one."""
    packed = pack(HERE, 100, [Span(102, 104), Span(200, 1_199)], 4_000)
    assert packed.text == "kafka-mesh/1 100 BAa-AdAP 23f0e578"
    assert packed.covered is None
    assert unpack(HERE, 100, packed.text).runs == (Span(102, 104), Span(200, 1_199))


COUNTS = [Counted(Span(100, 100), 4), Counted(Span(150, 169), 2)]


def test_the_form_with_counts() -> None:
    packed = pack(HERE, 100, [Span(102, 104), Span(200, 1_199)], 4_000, (), COUNTS, 3_000)
    assert packed.text == "kafka-mesh/3 100 BAa-AdAP  AAIIYigE c4ea3653"
    assert packed.used == len("kafka-mesh/1 100 BAa-AdAP 23f0e578"), "counts never make a partition wait"
    known = unpack(HERE, 100, packed.text)
    assert known == Unpacked((Span(102, 104), Span(200, 1_199)), (), tuple(COUNTS))
    alone = pack(HERE, 100, [], 4_000, (), COUNTS, 3_000)
    assert unpack(HERE, 100, alone.text) == Unpacked((), (), tuple(COUNTS))


@given(runs(), st.lists(st.integers(1, 9), min_size=40, max_size=40), st.integers(0, 200))
def test_counts_take_the_room_that_is_left_highest_first(
    case: tuple[int, list[Span]], numbers: list[int], room: int
) -> None:
    base, spans = case
    counts = [Counted(span, number) for span, number in zip(spans, numbers, strict=False)]
    packed = pack(HERE, base, (), LONGEST, (), counts, room)
    assert len(packed.text) <= room
    kept = unpack(HERE, base, packed.text).counts
    assert list(kept) == [each for each in counts if each in kept]
    left_out = [each.count for each in counts if each not in kept]
    assert max(left_out, default=0) <= min((each.count for each in kept), default=9)
    assert packed.covered is None
    both = unpack(HERE, base, pack(HERE, base, spans, LONGEST, (), counts, LONGEST).text)
    assert (list(both.runs), list(both.counts)) == (spans, counts)


@given(runs())
def test_what_was_packed_is_unpacked(case: tuple[int, list[Span]]) -> None:
    base, spans = case
    packed = pack(HERE, base, spans, LONGEST)
    assert packed.covered is None
    assert unpack(HERE, base, packed.text).runs == tuple(spans)
    assert (packed.text == "") is (not spans)
    assert packed.text.isascii()


@given(runs(), st.integers(0, 200))
def test_what_does_not_fit_is_left_out_highest_runs_first(case: tuple[int, list[Span]], limit: int) -> None:
    base, spans = case
    packed = pack(HERE, base, spans, limit)
    assert len(packed.text) <= limit
    kept = list(unpack(HERE, base, packed.text).runs)
    assert kept == spans[: len(kept)]
    assert packed.covered == (spans[len(kept)].first if len(kept) < len(spans) else None)


def test_a_thousand_small_runs_fit() -> None:
    spans = [Span(number * 10 + 2, number * 10 + 3) for number in range(1_000)]
    assert pack(HERE, 0, spans, 4_000).covered is None


@pytest.mark.parametrize("text", ["", "something of the application's", "kafka-mes", "\x00"])
def test_metadata_of_others_says_nothing(text: str) -> None:
    assert unpack(HERE, 100, text) == Unpacked()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kafka-mesh/5 100 BAa-AdAP 23f0e578", "version 5"),
        ("kafka-mesh/3 100 BAa-AdAP 23f0e578", "damaged"),
        ("kafka-mesh/1 100 BAa-AdAP 23f0e579", "damaged"),
        ("kafka-mesh/1 100 BAa-AdAP", "damaged"),
        ("kafka-mesh/1", "damaged"),
        ("kafka-mesh/1 " + "x" * LONGEST, "characters"),
    ],
)
def test_metadata_that_cannot_be_read_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ForeignMetadata, match=reason):
        unpack(HERE, 100, text)


def test_metadata_of_another_partition_or_offset_is_refused() -> None:
    text = pack(HERE, 100, [Span(102, 104)], 4_000).text
    with pytest.raises(ForeignMetadata, match="another partition"):
        unpack(THERE, 100, text)
    with pytest.raises(ForeignMetadata, match="offset 100, not 90"):
        unpack(HERE, 90, text)


@given(runs().filter(lambda case: bool(case[1])), st.data())
def test_no_single_damage_is_taken_for_acknowledgements(case: tuple[int, list[Span]], data: st.DataObject) -> None:
    base, spans = case
    text = pack(HERE, base, spans, LONGEST).text
    at = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters(codec="ascii").filter(lambda each: each != text[at]))
    try:
        assert unpack(HERE, base, text[:at] + character + text[at + 1 :]) == Unpacked()
    except ForeignMetadata:
        return
    assert at < len("kafka-mesh/"), "what says that it is ours is checked"
