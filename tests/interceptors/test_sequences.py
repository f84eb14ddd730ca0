"""Sequences of producers whose records are dropped, case by case; `test_sequences_machine` has all cases together."""

from __future__ import annotations

from mesh.interceptors.sequences import (
    MOST_REMEMBERED,
    SEQUENCES,
    KnownBatch,
    NewBatch,
    Numbered,
    ProducerPartition,
    SequencedBatch,
    Sequences,
    Unsequenced,
)

OF = ProducerPartition(7, "orders", 0)
OTHER = ProducerPartition(7, "orders", 1)


def batch(first: int, records: int, epoch: int = 0, of: ProducerPartition = OF) -> SequencedBatch:
    return SequencedBatch(of, epoch, first, records)


def numbered(sequences: Sequences, each: SequencedBatch, dropped: int = 0) -> int | None:
    found = sequences.number(each, dropped)
    assert isinstance(found, Numbered), found
    return found.sequence


def test_later_sequences_are_lower_by_what_was_dropped() -> None:
    sequences = Sequences(1 << 20)
    assert numbered(sequences, batch(0, 4), 0b0101) == 0
    assert numbered(sequences, batch(4, 3), 0b111) is None
    assert numbered(sequences, batch(7, 2)) == 2
    assert numbered(sequences, batch(9, 1)) == 4


def test_what_is_sent_again_has_the_same_numbers() -> None:
    sequences = Sequences(1 << 20)
    numbered(sequences, batch(0, 4), 0b0011)
    numbered(sequences, batch(4, 2), 0b10)
    numbered(sequences, batch(6, 2))
    assert sequences.plan(batch(4, 2)) == KnownBatch(0b10)
    assert sequences.number(batch(4, 2), 0b01) == KnownBatch(0b10), "another connection has decided otherwise"
    assert numbered(sequences, batch(4, 2), 0b10) == 2
    assert sequences.plan(batch(8, 1)) == NewBatch()


def test_a_part_of_a_batch_has_its_numbers() -> None:
    sequences = Sequences(1 << 20)
    numbered(sequences, batch(0, 6), 0b001010)
    assert numbered(sequences, batch(0, 2), 0b10) == 0
    assert numbered(sequences, batch(2, 4), 0b0010) == 1
    assert numbered(sequences, batch(3, 1), 0b1) is None


def test_as_many_batches_are_known_as_a_broker_knows() -> None:
    sequences = Sequences(1 << 20)
    for first in range(MOST_REMEMBERED + 1):
        numbered(sequences, batch(first, 1))
    assert sequences.plan(batch(1, 1)) == KnownBatch(0)
    assert sequences.plan(batch(0, 1)) is Unsequenced.OUT_OF_ORDER


def test_a_gap_and_what_reaches_beyond_a_batch_are_out_of_order() -> None:
    sequences = Sequences(1 << 20)
    numbered(sequences, batch(0, 4))
    for each in (batch(5, 1), batch(2, 3), batch(SEQUENCES - 1, 1)):
        assert sequences.plan(each) is Unsequenced.OUT_OF_ORDER


def test_what_follows_others_unseen_is_unknown_until_the_next_epoch() -> None:
    sequences = Sequences(1 << 20)
    assert sequences.plan(batch(3, 1)) is Unsequenced.UNKNOWN
    assert sequences.plan(batch(0, 1)) is Unsequenced.UNKNOWN, "what it had stored may have these numbers"
    assert sequences.plan(batch(3, 1, epoch=1)) is Unsequenced.UNKNOWN
    assert sequences.plan(batch(0, 1, of=OTHER)) == NewBatch()
    assert numbered(sequences, batch(0, 1, epoch=2)) == 0


def test_what_follows_the_first_batch_is_out_of_order_until_that_is_numbered() -> None:
    sequences = Sequences(1 << 20)
    assert sequences.plan(batch(0, 3)) == NewBatch()
    assert sequences.plan(batch(3, 1)) is Unsequenced.OUT_OF_ORDER
    assert numbered(sequences, batch(0, 3)) == 0


def test_an_epoch_begins_at_zero_and_ends_the_one_before() -> None:
    sequences = Sequences(1 << 20)
    numbered(sequences, batch(0, 4), 0b1)
    assert numbered(sequences, batch(0, 2, epoch=1)) == 0
    assert sequences.plan(batch(4, 1)) is Unsequenced.OLD_EPOCH


def test_sequences_begin_at_zero_again_behind_the_highest() -> None:
    sequences = Sequences(1 << 20)
    numbered(sequences, batch(0, SEQUENCES - 2))
    assert numbered(sequences, batch(SEQUENCES - 2, 4), 0b1) == SEQUENCES - 2
    assert sequences.plan(batch(SEQUENCES - 2, 4)) == KnownBatch(0b1)
    assert sequences.plan(batch(SEQUENCES - 1, 3)) == KnownBatch(0)
    assert numbered(sequences, batch(2, 1)) == 1


def test_what_the_broker_has_not_stored_is_judged_again_with_all_behind_it() -> None:
    sequences = Sequences(1 << 20)
    numbered(sequences, batch(0, 2), 0b1)
    refused = sequences.number(batch(2, 4), 0b0001)
    behind = sequences.number(batch(6, 2), 0)
    assert isinstance(refused, Numbered) and isinstance(behind, Numbered)
    sequences.refused(refused)
    assert sequences.plan(batch(6, 2)) is Unsequenced.OUT_OF_ORDER
    assert numbered(sequences, batch(2, 2), 0b11) is None, "the first half of it"
    assert numbered(sequences, batch(4, 2)) == 1
    sequences.refused(behind)
    assert sequences.plan(batch(6, 2)) == NewBatch(), "the answer to one that is forgotten changes nothing"


def test_what_may_be_stored_stays_decided() -> None:
    sequences = Sequences(1 << 20)
    first = sequences.number(batch(0, 2), 0b1)
    again = sequences.number(batch(0, 2), 0b1)
    assert isinstance(first, Numbered) and isinstance(again, Numbered)
    sequences.refused(again)
    assert sequences.plan(batch(0, 2)) == KnownBatch(0b1), "the answer to the first one is missing"
    sequences.refused(first)
    assert sequences.plan(batch(0, 2)) == NewBatch()


def test_those_silent_for_the_longest_time_are_forgotten() -> None:
    sequences = Sequences(5_000)
    producers = [ProducerPartition(number, "orders", 0) for number in range(20)]
    for of in producers:
        numbered(sequences, batch(0, 1, of=of))
    assert sequences.size <= 5_000 and sequences.forgotten == len(producers) - len(sequences) > 0
    assert sequences.plan(batch(1, 1, of=producers[0])) is Unsequenced.UNKNOWN
    assert sequences.plan(batch(1, 1, of=producers[-1])) == NewBatch()


def test_large_batches_count_by_their_records() -> None:
    sequences = Sequences(1 << 20)
    numbered(sequences, batch(0, 800_000), 0b1)
    assert sequences.size > 100_000
    whole = Sequences(1 << 20)
    numbered(whole, batch(0, 800_000), (1 << 800_000) - 1)
    assert whole.size < 1_000, "all or nothing takes no mask"
