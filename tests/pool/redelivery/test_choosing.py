"""Which of the records that are read again belong to a replay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.ids import GroupId
from mesh.pool.common.outbox import CurrentShareSettings, Outbox, PoolParts
from mesh.pool.common.settings import PoolSettings, ShareSettings
from mesh.pool.common.timers import Timers
from mesh.pool.distribution.slicing import Slicing
from mesh.pool.redelivery.choosing import chosen, chosen_at_rate, replayed_of
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.limiter import Bucket
from mesh.pool.state.partition import Partition
from mesh.pool.state.replayed import RecordFilter, Replay, Replayed, ReplayId, StoredReplay
from mesh.records.batch import RecordBatch
from mesh.records.decode import decode_records
from mesh.records.spans import Span
from tests.pool.checks import offsets_of
from tests.pool.names import batch_of, source

WHOLE = Span(0, 29)
SLICING = Slicing(
    PoolParts(GroupId("billing"), PoolSettings(), Timers(), Outbox(), CurrentShareSettings(ShareSettings()))
)


def partition_with(left: Span, bucket: Bucket | None = None) -> tuple[Partition, Replayed]:
    partition = Partition(source(0))
    partition.ledger = Ledger(100)
    replay = Replay(ReplayId("first"), 0, None, RecordFilter(key=b"a"))
    replayed = Replayed(StoredReplay(replay, left, len(left), (left,)), bucket)
    replayed.next = left.last + 1
    partition.ledger.replay_changed(replayed)
    return partition, replayed


def records_of(batches: list[RecordBatch]) -> set[int]:
    return {record.offset for batch in batches for record in decode_records(batch)}


@given(matching=st.sets(st.integers(0, 29)), size=st.sampled_from([None, 1, 4]), tokens=st.integers(0, 40))
def test_matching_records_are_given_and_the_others_are_settled(
    matching: set[int], size: int | None, tokens: int
) -> None:
    batches = [batch_of(source(0), 0, 29, size, dict.fromkeys(matching, b"a"))]
    partition, replayed = partition_with(WHOLE)
    found = chosen(SLICING, partition, replayed, batches, WHOLE)
    assert records_of(found) == matching
    given = offsets_of(Span(batch.first, batch.last) for batch in found)
    assert given | offsets_of([WHOLE]) - offsets_of(replayed.left) == offsets_of([WHOLE])
    assert offsets_of(replayed.left) == given, "what is left is in somebody's hands"

    bucket = Bucket(100, 0.0)
    bucket.tokens = tokens
    partition, replayed = partition_with(WHOLE, bucket)
    found = chosen_at_rate(SLICING, partition, replayed, batches, WHOLE, 0.0)
    assert records_of(found) == set(sorted(matching)[:tokens])
    given = offsets_of(Span(batch.first, batch.last) for batch in found)
    later = {offset for offset in offsets_of(replayed.left) if offset >= replayed.next}
    assert offsets_of(replayed.left) == given | later
    assert not given & later
    assert matching <= records_of(found) | later
    assert bucket.tokens == tokens - len(records_of(found))


def test_what_lies_below_something_that_was_read_is_given_whole() -> None:
    bucket = Bucket(1, 0.0)
    partition, replayed = partition_with(WHOLE, bucket)
    batches = [batch_of(source(0), 0, 9, None, dict.fromkeys(range(10), b"a"))]
    found = chosen_at_rate(SLICING, partition, replayed, batches, Span(0, 9), 0.0)
    assert records_of(found) == set(range(10))


def test_a_damaged_batch_is_given_whole() -> None:
    partition, replayed = partition_with(WHOLE)
    batch = batch_of(source(0), 0, 29)
    batch.data[70] ^= 0xFF
    found = chosen(SLICING, partition, replayed, [batch], WHOLE)
    assert offsets_of(Span(each.first, each.last) for each in found) == offsets_of([WHOLE])


def test_only_a_filter_looks_into_records() -> None:
    partition, replayed = partition_with(WHOLE)
    assert replayed_of(partition, Span(3, 4)) is replayed
    assert replayed_of(partition, Span(30, 40)) is None
    everything = Replay(ReplayId("all"), 0)
    partition.ledger.replay_changed(Replayed(StoredReplay(everything, WHOLE, 30, (WHOLE,))))
    assert replayed_of(partition, Span(3, 4)) is None
