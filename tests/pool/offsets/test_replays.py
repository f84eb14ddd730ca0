"""A replay as text in the metadata of a commit."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.offsets.metadata import NOTHING_STORED, pack, unpack
from mesh.pool.offsets.payload import ForeignMetadata, to_base64
from mesh.pool.offsets.replays import LEAST_LIMIT, encode_replay, read_replay
from mesh.pool.state.delivery_counts import Counted
from mesh.pool.state.leases import HolderId, LeaseId, StoredLease
from mesh.pool.state.replayed import LONGEST_FILTER, MOST_RATE, RecordFilter, Replay, ReplayId, StoredReplay
from mesh.records.span_lists import disjoint, merge_adjacent
from mesh.records.spans import Span
from tests.pool.checks import offsets_of
from tests.pool.names import source

SPANS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 20)).map(lambda each: Span(each[0], each[0] + each[1])), min_size=1
).map(lambda spans: tuple(merge_adjacent(disjoint(spans))))
FILTERS = st.builds(
    RecordFilter,
    st.lists(st.tuples(st.text(min_size=1, max_size=4), st.binary(max_size=8)), max_size=4).map(tuple),
    st.none() | st.binary(max_size=20),
)
REPLAYS = st.builds(
    Replay,
    st.text("0123456789abcdef", min_size=1, max_size=8).map(ReplayId),
    st.integers(0, 1 << 45),
    st.none() | st.integers(1, MOST_RATE),
    FILTERS,
)


def stored(replay: Replay, left: tuple[Span, ...]) -> StoredReplay:
    return StoredReplay(replay, Span(left[0].first, left[-1].last), sum(map(len, left)), left)


@given(replay=REPLAYS, left=SPANS)
def test_it_is_read_as_it_was_written(replay: Replay, left: tuple[Span, ...]) -> None:
    assert read_replay(encode_replay(stored(replay, left), 32_000)) == stored(replay, left)


@given(left=SPANS, limit=st.integers(0, 600))
def test_what_does_not_fit_is_told_with_what_lies_between(left: tuple[Span, ...], limit: int) -> None:
    text = encode_replay(stored(Replay(ReplayId("first"), 0), left), limit)
    told = read_replay(text)
    assert offsets_of(told.left) >= offsets_of(left)
    assert (told.left[0].first, told.left[-1].last) == (left[0].first, left[-1].last)
    assert told.total == sum(map(len, left))


def test_the_longest_filter_leaves_room() -> None:
    replay = Replay(ReplayId("0" * 32), 1 << 45, MOST_RATE, RecordFilter((), b"k" * LONGEST_FILTER))
    left = tuple(Span(1 << 40 | 2 * offset, 1 << 40 | 2 * offset) for offset in range(1_000))
    text = encode_replay(stored(replay, left), LEAST_LIMIT)
    assert len(text) <= LEAST_LIMIT // 4 + 100
    packed = pack(source(0), 1 << 40, [], LEAST_LIMIT, replay=stored(replay, left))
    assert packed.covered is None
    assert len(packed.text) <= LEAST_LIMIT


@given(replay=REPLAYS, left=SPANS)
def test_it_stands_beside_all_else(replay: Replay, left: tuple[Span, ...]) -> None:
    lease = StoredLease(LeaseId("lease"), HolderId("spark"), 5, (Span(1_100, 1_110),))
    counts = [Counted(Span(1_200, 1_200), 2)]
    runs = [Span(1_010, 1_020), Span(1_050, 1_050)]
    packed = pack(source(0), 1_000, runs, 4_096, [lease], counts, 3_000, stored(replay, left))
    assert packed.text.startswith("kafka-mesh/4 ")
    found = unpack(source(0), 1_000, packed.text)
    assert (list(found.runs), list(found.leases), list(found.counts)) == (runs, [lease], counts)
    assert found.replay == stored(replay, left)
    alone = unpack(source(0), 1_000, pack(source(0), 1_000, [], 4_096, replay=stored(replay, left)).text)
    assert (alone.runs, alone.leases, alone.counts, alone.replay) == ((), (), (), stored(replay, left))


def test_it_is_whole_or_nothing_is_stored() -> None:
    replay = stored(Replay(ReplayId("first"), 0), (Span(0, 9),))
    assert pack(source(0), 10, [Span(20, 30)], 40, replay=replay).covered == NOTHING_STORED


@pytest.mark.parametrize("payload", [b"", b"\x02", b"\x02a", b"\x02a" + bytes(30), b"\x02a\x00\x00\x00\x02\x02\x7f"])
def test_what_no_mesh_has_written_is_refused(payload: bytes) -> None:
    with pytest.raises((ForeignMetadata, IndexError)):
        read_replay(to_base64(payload))


def test_what_follows_on_it_is_refused() -> None:
    text = encode_replay(stored(Replay(ReplayId("first"), 0), (Span(0, 9),)), 4_096)
    payload = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    with pytest.raises(ForeignMetadata, match="behind"):
        read_replay(to_base64(payload + b"\x00"))
