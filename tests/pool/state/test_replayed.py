"""The account of the replayed offsets of one partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.state.ledger import Ledger
from mesh.pool.state.limiter import Bucket
from mesh.pool.state.replayed import UNLIMITED, RecordFilter, Replay, Replayed, ReplayId, StoredReplay
from mesh.records.decode import DecodedRecord
from mesh.records.span_lists import disjoint
from mesh.records.spans import CommitPosition, Span
from tests.pool.checks import offsets_of

REPLAY = Replay(ReplayId("first"), 0)
SPAN = st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda each: Span(each[0], each[0] + each[1]))


def replayed(*left: Span) -> Replayed:
    whole = Span(left[0].first, left[-1].last) if left else Span(0, 0)
    return Replayed(StoredReplay(REPLAY, whole, sum(map(len, left)), left))


@given(left=st.lists(SPAN, max_size=5), settled=st.lists(SPAN, max_size=8), most=st.integers(1, 30))
def test_it_is_a_set_of_offsets(left: list[Span], settled: list[Span], most: int) -> None:
    account = replayed(*disjoint(left))
    wanted = offsets_of(left)
    assert offsets_of(account.left) == wanted
    read: set[int] = set()
    for span in settled:
        part = account.part(most)
        if part is not None:
            assert len(part) <= most
            assert offsets_of([part]) <= wanted - read
            read |= offsets_of([part])
            account.next = part.last + 1
        else:
            assert not any(offset >= account.next for offset in wanted)
        assert account.settle(span.first, span.last) is bool(wanted & offsets_of([span]))
        wanted -= offsets_of([span])
        assert offsets_of(account.left) == wanted
        assert offsets_of(account.out) == {offset for offset in wanted if offset < account.next}
        assert account.has(span) is bool(offsets_of(account.within(span)))
    stored = account.stored
    assert (stored is None) is (not wanted)
    assert stored is None or offsets_of(stored.left) == wanted


def test_what_is_cancelled_is_not_stored() -> None:
    account = replayed(Span(0, 9))
    account.is_cancelled = True
    account.keep([Span(2, 3)])
    assert account.left == [Span(2, 3)]
    assert account.stored is None


def test_a_rate_is_for_all_its_partitions() -> None:
    bucket = Bucket(10, 0.0)
    one, other = replayed(Span(0, 99)), replayed(Span(0, 99))
    assert one.room(0.0) == UNLIMITED
    one.took(5)
    one.bucket = other.bucket = bucket
    one.took(7)
    assert other.room(0.0) == 3
    assert other.room(0.5) == 8


def record(key: bytes | None, *headers: tuple[str, bytes | None]) -> DecodedRecord:
    return DecodedRecord(0, 0, False, key, b"value", headers)


def test_a_filter_names_headers_and_a_key() -> None:
    region, kind = ("region", b"eu"), ("kind", b"red")
    assert RecordFilter().is_for_all
    assert RecordFilter().matches(record(None))
    both = RecordFilter((region, kind), b"k")
    assert both.size == len("regioneukindredk")
    assert both.matches(record(b"k", kind, ("more", None), region))
    assert not both.matches(record(b"k", kind))
    assert not both.matches(record(None, kind, region))
    assert not RecordFilter((region,)).matches(record(None, ("region", None)))


def begun(left: Span) -> Ledger:
    """A ledger with ten settled and stored offsets, and a replay of some of them."""
    ledger = Ledger(0, CommitPosition(0))
    ledger.receive(0, 19)
    ledger.settle(0, 9)
    ledger.replay_changed(replayed(left))
    ledger.store(ledger.version, CommitPosition(10), None)
    return ledger


def test_the_committed_offset_stays() -> None:
    ledger = begun(Span(2, 5))
    assert ledger.committable == 10
    assert ledger.to_process(0, 12) == [Span(2, 5), Span(10, 12)]
    ledger.settle(2, 3)
    assert ledger.committable == 10
    assert ledger.needs_storing
    assert ledger.to_process(0, 9) == [Span(4, 5)]
    ledger.settle_empty(4, 5)
    assert ledger.to_process(0, 9) == []


def test_it_is_stored_when_a_commit_of_its_version_is() -> None:
    ledger = begun(Span(2, 5))
    assert ledger.is_stored(ledger.version, 3), "nothing was acknowledged again"
    ledger.settle(2, 2)
    first = ledger.version
    ledger.settle(3, 3)
    second = ledger.version
    assert not ledger.is_stored(first, 2)
    ledger.store(first, CommitPosition(10), None)
    assert ledger.is_stored(first, 2)
    assert not ledger.is_stored(second, 3)
    ledger.store(second, CommitPosition(10), None)
    assert ledger.is_stored(second, 3)
    assert ledger.is_stored(second + 1, 3), "nothing of it was acknowledged since"


def test_what_was_delivered_in_vain_of_it_is_not_stored() -> None:
    ledger = begun(Span(2, 5))
    ledger.set_delivery_count(Span(2, 2), 1)
    assert list(ledger.counts) == []
    ledger.set_delivery_count(Span(12, 12), 1)
    assert len(ledger.counts) == 1


def test_a_log_that_was_truncated_has_no_more_of_it() -> None:
    ledger = begun(Span(2, 5))
    ledger.truncate(4)
    assert ledger.replayed is not None
    assert ledger.replayed.left == [Span(2, 3)]
