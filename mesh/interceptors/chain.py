"""Runs a chain of interceptors on the records of one partition. No IO; the clock is an argument.

An unchanged batch stays the same byte for byte. Interceptors do not see control batches. Batches of aborted
transactions are left out, since a consumer would skip them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, NewType, TypeAlias, assert_never

from mesh.interceptors.record_fields import is_same, merged, shown, stored
from mesh.interceptors.spi import (
    AsyncInterceptor,
    Batch,
    Effect,
    Interceptor,
    On,
    Outcome,
    Reads,
    Record,
    Reject,
    Verdict,
    Where,
)
from mesh.records.batch import HEADER_SIZE, CorruptBatch
from mesh.records.numbering import renumbered
from mesh.records.rewrite import BatchHead, RecordFields, head_of, records_of, rewritten, whole_batches

InterceptorName = NewType("InterceptorName", str)
"""The name of an interceptor in the configuration."""

MOST_REJECTED: Final = 1_000
"""The most records of a partition whose rejections are reported one by one."""
LONGEST_TEXT: Final = 500


class OnFailure(Enum):
    """The handling of records whose interceptor fails. FAIL and REJECT are the same for producers."""

    FAIL = "fail"
    REJECT = "reject"
    PASS = "pass"
    DROP = "drop"


class RecordCount(NamedTuple):
    """The numbers of records that one interceptor saw, by outcome. seconds: the time that it took."""

    kept: int = 0
    changed: int = 0
    dropped: int = 0
    rejected: int = 0
    failed: int = 0
    seconds: float = 0.0

    def plus(self, other: RecordCount) -> RecordCount:
        return RecordCount(
            self.kept + other.kept,
            self.changed + other.changed,
            self.dropped + other.dropped,
            self.rejected + other.rejected,
            self.failed + other.failed,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class ChainStep:
    """An interceptor of a chain. where: the place of the records as this interceptor sees it; None for that of the
    chain."""

    name: InterceptorName
    interceptor: Interceptor
    on_failure: OnFailure
    where: Where | None = None


class Placed(NamedTuple):
    """An interceptor, and the topic's name at its place. route: the path of routes to that place, None in front of all
    routes."""

    name: InterceptorName
    topic: str
    route: str | None = None


class Rejected(NamedTuple):
    """A refused record. place: its index in its batch."""

    place: int
    text: str


class InterceptorFailure(NamedTuple):
    """An interceptor that failed. offset: the offset of the record, or, in a producer's batch, its index."""

    interceptor: InterceptorName
    offset: int
    text: str


@dataclass(slots=True)
class ChainResult:
    """The outcome of a chain for the records of a partition.

    records: the changed records; None if they stay unchanged.
    next_offset: the offset after the last whole batch, -1 if there is none.
    kept_until: the offset after the last batch with kept records, -1 if there is none.
    rejected: the refused records; if there are any, none of the partition is kept.
    failure: the first failure. is_failed: whether no record is kept because of it.
    dropped: for a producer's batch, a bit for each record, set if it is dropped; the lowest is the first record.
    """

    records: bytes | None = None
    next_offset: int = -1
    kept_until: int = -1
    rejected: list[Rejected] = field(default_factory=list)
    failure: InterceptorFailure | None = None
    is_failed: bool = False
    counts: dict[InterceptorName, RecordCount] = field(default_factory=dict)
    dropped: int = 0


Complete: TypeAlias = Callable[[Coroutine[Any, Any, Sequence[Outcome]]], Sequence[Outcome]]
"""Runs an asynchronous interceptor until it is done."""


class _Failed(Exception):
    """Raised when no record of the partition is kept."""


def run_chain(
    steps: Sequence[ChainStep],
    records: memoryview,
    where: Where,
    clock: Callable[[], float],
    complete: Complete | None = None,
    aborted: Iterable[tuple[int, int]] = (),
    decided: int | None = None,
) -> ChainResult:
    """Runs a chain over the records of a partition. Raises CorruptBatch and OldFormat.

    aborted: producer id and first offset of each aborted transaction.
    complete: needed if asynchronous interceptors may be among the steps.
    decided: the records of a producer's batch that were dropped when it came before, as in `ChainResult.dropped`. The
        same records are dropped again, without asking an interceptor, and no others.
    """
    chain = _Chain(steps, where, clock, complete, aborted, decided)
    try:
        chain.run(records)
    except _Failed:
        chain.result.is_failed = True
        chain.result.records = None
    return chain.result


class _Chain:
    def __init__(
        self,
        steps: Sequence[ChainStep],
        where: Where,
        clock: Callable[[], float],
        complete: Complete | None,
        aborted: Iterable[tuple[int, int]],
        decided: int | None = None,
    ) -> None:
        self.result = ChainResult()
        self._decided = decided
        self._steps = steps
        self._where = where
        self._clock = clock
        self._complete = complete
        self._transactions = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._aborting: set[int] = set()

    def run(self, records: memoryview) -> None:
        pieces: list[bytes | memoryview] = []
        is_changed, end = False, 0
        for batch in whole_batches(records):
            head = head_of(batch)
            end += len(batch)
            self.result.next_offset = head.last + 1
            new = None if self._is_left_out(head) else self._batch(batch, head)
            is_changed = is_changed or new is not batch
            if new is not None:
                self.result.kept_until = head.last + 1
                pieces.append(new)
        if is_changed or end < len(records):
            self.result.records = b"".join(pieces)

    def _is_left_out(self, head: BatchHead) -> bool:
        """Returns whether the batch belongs to an aborted transaction; each batch has one producer."""
        while self._transactions and self._transactions[-1][1] <= head.last:
            self._aborting.add(self._transactions.pop()[0])
        if head.is_control:
            self._aborting.discard(head.producer_id)
            return False
        return head.is_transactional and head.producer_id in self._aborting

    def _batch(self, batch: memoryview, head: BatchHead) -> bytes | memoryview | None:
        """Returns the batch with its kept records; None if it has none."""
        if not head.records and len(batch) > HEADER_SIZE:
            raise CorruptBatch("bytes behind the header of a batch without records")  # a client could read them
        if head.is_control or not head.records:
            return batch
        found: list[RecordFields] | None = None
        here: list[Record] = []
        before: list[Record] = []
        if self._decided:
            found, before = self._read(batch, head)
            here = [
                each
                for each, is_dropped in zip(before, _flags(self._decided, len(before)), strict=True)
                if not is_dropped
            ]
        for step in self._steps:
            if found is not None and not here:
                break
            began = self._clock()
            if step.interceptor.reads is Reads.BATCH:
                outcomes = self._check_batch(step, batch, head)
            else:
                if found is None:
                    found, before = self._read(batch, head)
                    here = before
                outcomes = self._outcomes(step, here)
            count, here = self._apply(step, here, outcomes, head)
            self._count(step, count._replace(seconds=self._clock() - began))
        if found is None or (len(here) == len(before) and all(map(is_same, here, before))):
            return batch
        if self._where.on is On.PRODUCE and len(here) < len(before):
            kept = {each.offset for each in here}
            self.result.dropped = _mask(each.offset not in kept for each in before)
            return renumbered(batch, [stored(each, head.base) for each in here]) if here else None
        if not here:
            return None
        times = {each.offset: each.timestamp for each in before}
        has_new_times = any(times[each.offset] != each.timestamp for each in here)
        return rewritten(batch, [stored(each, head.base) for each in here], has_new_times=has_new_times)

    def _read(self, batch: memoryview, head: BatchHead) -> tuple[list[RecordFields], list[Record]]:
        """Returns the records of a batch, and the same records as interceptors see them. Raises CorruptBatch."""
        found = records_of(batch)
        if self._where.on is On.PRODUCE and [each.delta for each in found] != list(range(head.records)):
            raise CorruptBatch("the offset deltas of a producer's batch are not 0, 1, 2 ...")
        return found, [shown(each, head.base) for each in found]

    def _check_batch(self, step: ChainStep, batch: memoryview, head: BatchHead) -> Sequence[Outcome] | Exception:
        described = Batch(head.records, len(batch), head.codec, head.is_transactional)
        try:
            step.interceptor.check_batch(described, step.where or self._where)
        except MemoryError:
            raise
        except Exception as problem:  # noqa: BLE001 - of users' code; reported with the offset
            return problem
        return ()

    def _outcomes(self, step: ChainStep, records: list[Record]) -> Sequence[Outcome] | Exception:
        """Returns the outcome of each record, or an exception that counts for all records."""
        interceptor, reads, where = step.interceptor, step.interceptor.reads, step.where or self._where
        shown = records
        if reads is not Reads.VALUE:
            key_is_shown = reads is Reads.KEY
            shown = [each._replace(key=each.key if key_is_shown else None, value=None) for each in records]
        try:
            if isinstance(interceptor, AsyncInterceptor):
                assert self._complete is not None, "an asynchronous interceptor runs in a worker"
                outcomes = self._complete(interceptor.intercept_batch_async(shown, where))
            else:
                outcomes = interceptor.intercept_batch(shown, where)
            if len(outcomes) != len(records):
                return TypeError(f"{len(outcomes)} outcomes for {len(records)} records")
        except MemoryError:
            raise
        except Exception as problem:  # noqa: BLE001 - of users' code; reported with the offset
            return problem
        return outcomes

    def _apply(
        self, step: ChainStep, records: list[Record], outcomes: Sequence[Outcome] | Exception, head: BatchHead
    ) -> tuple[RecordCount, list[Record]]:
        """Applies the outcomes. Returns the counts, and the records for the next step."""
        if isinstance(outcomes, Exception) and not records:  # the batch's records were not read
            return self._batch_refused(step, outcomes, head), records
        if isinstance(outcomes, Exception):
            outcomes = [outcomes] * len(records)
        if not outcomes:
            return RecordCount(kept=head.records), records
        kept: list[Record] = []
        changed = dropped = rejected = failed = 0
        for record, outcome in zip(records, outcomes, strict=True):
            new = self._one(step, record, outcome)
            match new:
                case Record():
                    changed += new is not record
                    kept.append(new)
                case Verdict.DROP:
                    dropped += 1
                case Reject():
                    rejected += 1
                    self._reject(record.offset - head.base, new)
                    kept.append(record)
                case Verdict.KEEP:
                    kept.append(record)
                case Exception():
                    failed += 1
                    if self._failed(step, record.offset, new) is not OnFailure.DROP:
                        kept.append(record)
                case _:
                    assert_never(new)
        unchanged = len(records) - changed - dropped - rejected - failed
        return RecordCount(unchanged, changed, dropped, rejected, failed), kept

    def _one(self, step: ChainStep, record: Record, outcome: object) -> Outcome:
        """Returns the outcome if the interceptor is allowed to have it; else an exception that says what is wrong."""
        if outcome is Verdict.KEEP:
            return record
        if isinstance(outcome, Reject):
            return outcome if self._where.on is On.PRODUCE else RuntimeError(f"rejected: {outcome}")
        if isinstance(outcome, Exception):
            return outcome
        effect = step.interceptor.effect
        if outcome is Verdict.DROP:
            if effect is not Effect.FILTER:
                return TypeError(f"an interceptor with effect {effect.name} drops nothing")
            return Verdict.DROP if self._decided is None else record
        if not isinstance(outcome, Record):
            return TypeError(f"{type(outcome).__name__} instead of KEEP, DROP or a Record")
        if effect is Effect.CHECK:
            return TypeError("an interceptor with effect CHECK changes nothing")
        return merged(record, outcome, step.interceptor.reads)

    def _batch_refused(self, step: ChainStep, problem: Exception, head: BatchHead) -> RecordCount:
        if isinstance(problem, Reject) and self._where.on is On.PRODUCE:
            self._reject(0, problem)
            return RecordCount(rejected=head.records)
        if self._failed(step, head.base, problem) is OnFailure.DROP:
            raise _Failed  # only interceptors that read records may drop
        return RecordCount(failed=head.records)

    def _reject(self, index: int, problem: Reject) -> None:
        if len(self.result.rejected) < MOST_REJECTED:
            self.result.rejected.append(Rejected(index, str(problem)[:LONGEST_TEXT] or "rejected"))

    def _failed(self, step: ChainStep, offset: int, problem: Exception) -> OnFailure:
        if self.result.failure is None:
            text = f"{type(problem).__name__}: {problem}"[:LONGEST_TEXT]
            self.result.failure = InterceptorFailure(step.name, offset, text)
        if step.on_failure in (OnFailure.FAIL, OnFailure.REJECT):
            self._count(step, RecordCount(failed=1))
            raise _Failed
        return step.on_failure

    def _count(self, step: ChainStep, count: RecordCount) -> None:
        self.result.counts[step.name] = self.result.counts.get(step.name, RecordCount()).plus(count)


def _mask(flags: Iterable[bool]) -> int:
    """Returns a number with one bit for each flag, the lowest for the first."""
    return int("".join("1" if each else "0" for each in flags)[::-1], 2)


def _flags(mask: int, count: int) -> list[bool]:
    return [each == "1" for each in f"{mask:0{count}b}"[::-1]]
