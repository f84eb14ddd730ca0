"""A chain over the records of a partition: which go on, which are dropped or rejected, and which fail."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.interceptors.chain import InterceptorName, OnFailure, RecordCount, run_chain
from mesh.interceptors.spi import (
    DROP,
    KEEP,
    AsyncInterceptor,
    Batch,
    Effect,
    Interceptor,
    NoConfig,
    Outcome,
    Reads,
    Record,
    Reject,
    Where,
)
from mesh.records.batch import CorruptBatch, seal
from tests.interceptors.fakes import FETCH, PRODUCE, Does, batch, judged, step, values

NAME = InterceptorName("it")


def rejecting(record: Record) -> Outcome:
    raise Reject("no")


def failing(record: Record) -> Outcome:
    raise RuntimeError("a bug")


def as_transaction(data: bytes, producer: int, *, is_control: bool = False) -> bytes:
    changed = bytearray(data)
    Struct(">h").pack_into(changed, 21, 0x30 if is_control else 0x10)
    Struct(">q").pack_into(changed, 43, producer)
    seal(changed)
    return bytes(changed)


def test_what_nobody_changes_stays_byte_for_byte() -> None:
    data = batch(b"a", b"b") + batch(b"c", base=2)
    found = judged([step(Does(lambda _: KEEP)), step(Does(lambda record: record))], data)
    assert found.records is None
    assert (found.next_offset, found.kept_until) == (3, 3)
    assert found.counts == {NAME: RecordCount(kept=6)}


def test_only_the_batch_with_a_change_is_written_again() -> None:
    first, second = batch(b"a", b"b"), batch(b"c", base=2)
    change = Does(lambda record: record.with_value(b"new") if record.value == b"c" else KEEP)
    found = judged([step(change)], first + second)
    assert found.records is not None and found.records.startswith(first)
    assert values(found.records) == [(0, b"a"), (1, b"b"), (2, b"new")]
    assert found.counts == {NAME: RecordCount(kept=2, changed=1)}


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=5))
def test_drops_leave_gaps_and_no_empty_batches(kept: list[list[bool]]) -> None:
    data, base, expected = b"", 0, list[tuple[int, bytes]]()
    until = -1
    for of_batch in kept:
        contents = [b"keep" if each else b"drop" for each in of_batch]
        data += batch(*contents, base=base)
        expected += [(base + at, b"keep") for at, each in enumerate(of_batch) if each]
        base += len(of_batch)
        until = base if any(of_batch) else until
    found = judged([step(Does(lambda record: KEEP if record.value == b"keep" else DROP))], data)
    assert values(data if found.records is None else found.records) == expected
    assert (found.next_offset, found.kept_until) == (base, until)
    assert found.counts[NAME].dropped == sum(not each for of_batch in kept for each in of_batch)


def test_each_sees_what_the_one_before_it_left() -> None:
    last = Does(lambda record: KEEP)
    steps = [
        step(Does(lambda record: DROP if record.value == b"a" else record.with_value(b"B"))),
        step(last, name="last"),
    ]
    assert values(judged(steps, batch(b"a", b"b")).records) == [(1, b"B")]
    assert [each.value for each in last.shown] == [b"B"]


@pytest.mark.parametrize("reads", [Reads.HEADERS, Reads.KEY, Reads.VALUE])
def test_nobody_is_shown_more_than_it_reads(reads: Reads) -> None:
    interceptor = Does(lambda record: record._replace(key=b"x", value=b"y", headers=()), reads=reads)
    found = judged([step(interceptor)], batch(b"a"))
    assert found.records is not None
    (shown,) = interceptor.shown
    assert shown.key == (b"k0" if reads >= Reads.KEY else None)
    assert shown.value == (b"a" if reads >= Reads.VALUE else None)
    assert shown.size == 5
    last = Does(lambda record: KEEP)
    judged([step(last)], found.records)
    assert last.shown == [
        Record(
            b"x" if reads >= Reads.KEY else b"k0",
            b"y" if reads >= Reads.VALUE else b"a",
            (),
            1_000,
            0,
            last.shown[0].size,
        )
    ]


def test_control_batches_are_not_shown_and_aborted_ones_are_left_out() -> None:
    aborted = as_transaction(batch(b"aborted"), 7)
    marker = as_transaction(batch(b"\0\0\0\0\0\0", base=1), 7, is_control=True)
    committed = as_transaction(batch(b"committed", base=2), 7)
    others = as_transaction(batch(b"other", base=3), 8)
    interceptor = Does(lambda record: KEEP)
    found = judged([step(interceptor)], aborted + marker + committed + others, aborted=[(7, 0)])
    assert [each.value for each in interceptor.shown] == [b"committed", b"other"]
    assert found.records == marker + committed + others
    alone = judged([step(interceptor)], aborted, aborted=[(7, 0)])
    assert (alone.records, alone.next_offset, alone.kept_until) == (b"", 1, -1)


def test_a_batch_that_is_not_whole_does_not_go_on() -> None:
    data = batch(b"a") + batch(b"b" * 100, base=1)
    assert judged([step(Does(lambda _: KEEP))], data[:-1]).records == batch(b"a")


def test_rejected_records_are_told_to_producers() -> None:
    found = judged(
        [step(Does(lambda each: KEEP if each.value == b"a" else rejecting(each)))], batch(b"a", b"b"), PRODUCE
    )
    assert found.rejected == [(1, "no")]
    assert found.counts == {NAME: RecordCount(kept=1, rejected=1)}


@pytest.mark.parametrize("does", [failing, rejecting])
@pytest.mark.parametrize("on_failure", list(OnFailure))
def test_failures_on_fetch(does: Any, on_failure: OnFailure) -> None:
    data = batch(b"a", b"b", base=10)
    found = judged([step(Does(lambda each: KEEP if each.value == b"a" else does(each)), on_failure)], data)
    assert found.failure is not None
    assert (found.failure.interceptor, found.failure.offset) == (NAME, 11)
    assert found.is_failed is (on_failure in (OnFailure.FAIL, OnFailure.REJECT))
    if on_failure is OnFailure.PASS:
        assert found.records is None
    if on_failure is OnFailure.DROP:
        assert values(found.records) == [(10, b"a")]


WRONG: list[Any] = [
    "a text",
    None,
    Record("a text", b""),  # type: ignore[arg-type]
    Record(b"", b"", (("name", "a text"),)),  # type: ignore[arg-type]
    Record(b"", b"", ((b"name", b""),)),  # type: ignore[arg-type]
    Record(b"", b"", (), "now"),  # type: ignore[arg-type]
    Record(b"", b"", (), -5),
    Record(b"", b"", 7),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_outcome_is_a_failure(wrong: Any) -> None:
    assert judged([step(Does(lambda _: wrong))], batch(b"a")).is_failed


@pytest.mark.parametrize(
    ("effect", "where", "outcome"),
    [
        (Effect.CHECK, FETCH, Record(b"", b"")),
        (Effect.CHECK, FETCH, DROP),
        (Effect.MAP, FETCH, DROP),
        (Effect.MAP, PRODUCE, DROP),
    ],
)
def test_nobody_does_more_than_its_effect(effect: Effect, where: Where, outcome: Any) -> None:
    assert judged([step(Does(lambda _: outcome, effect))], batch(b"a"), where).is_failed


class Counts(Interceptor):
    """Returns the wrong number of outcomes."""

    def intercept_batch(self, records: Sequence[Record], where: Where) -> Sequence[Outcome]:
        return [KEEP] * (len(records) + 1)


def test_there_is_an_outcome_for_each_record() -> None:
    found = judged([step(Counts(NoConfig()), OnFailure.PASS)], batch(b"a", b"b"))
    assert found.failure is not None and "3 outcomes for 2 records" in found.failure.text
    assert found.counts == {NAME: RecordCount(failed=2)}


class Later(AsyncInterceptor):
    """An interceptor that asks no service."""

    async def intercept_async(self, record: Record, where: Where) -> Outcome:
        return record.with_value(b"later")


def test_asynchronous_ones_are_waited_for() -> None:
    def complete(coroutine: Any) -> Sequence[Outcome]:
        with pytest.raises(StopIteration) as ended:
            coroutine.send(None)
        found: Sequence[Outcome] = ended.value.value
        return found

    found = run_chain([step(Later(NoConfig()))], memoryview(batch(b"a")), FETCH, lambda: 0.0, complete)
    assert values(found.records) == [(0, b"later")]


class OfBatches(Interceptor):
    """Rejects batches of more than one record."""

    reads = Reads.BATCH
    effect = Effect.CHECK

    def check_batch(self, batch: Batch, where: Where) -> None:
        if batch.records > 1:
            raise Reject("too many")


def test_batches_are_checked_without_their_records() -> None:
    interceptor = step(OfBatches(NoConfig()))
    unreadable = bytearray(batch(b"a"))
    unreadable[-1] ^= 1  # unread records may be wrong
    assert judged([interceptor], bytes(unreadable), PRODUCE).rejected == []
    found = judged([interceptor], batch(b"a", b"b"), PRODUCE)
    assert found.rejected == [(0, "too many")]
    assert judged([interceptor], batch(b"a", b"b")).is_failed


def test_memory_that_runs_out_is_no_failure_of_a_record() -> None:
    def hungry(record: Record) -> Outcome:
        raise MemoryError

    with pytest.raises(MemoryError):
        judged([step(Does(hungry), OnFailure.PASS)], batch(b"a"))


def test_a_batch_without_records_has_no_bytes_behind_its_header() -> None:
    """Compaction leaves headers alone. With bytes behind such a header, records would pass that no interceptor sees."""

    def without_records(data: bytes) -> bytes:
        emptied = bytearray(data)
        emptied[57:61] = bytes(4)
        emptied[8:12] = (len(emptied) - 12).to_bytes(4, "big")
        seal(emptied)
        return bytes(emptied)

    changing = [step(Does(lambda record: record.with_value(b"****")))]
    compacted, hidden = without_records(batch(b"a", b"b")[:61]), without_records(batch(b"a", b"b"))
    assert judged(changing, compacted).records is None
    for where in (FETCH, PRODUCE):
        with pytest.raises(CorruptBatch):
            judged(changing, hidden, where)
