"""Lets a chain of interceptors see the records of one partition. No IO; the clock is an argument.

A batch that nobody changes stays as it is, byte for byte. Control batches are not shown, and the batches of aborted
transactions are left out: a consumer would pass them over.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, NewType, TypeAlias, assert_never

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
from mesh.records.rewrite import BatchHead, RecordFields, head_of, records_of, rewritten, whole_batches

InterceptorName = NewType("InterceptorName", str)
"""What the configuration calls it."""

MOST_REJECTED: Final = 1_000
"""Records of a partition whose rejection is told one by one."""
LONGEST_TEXT: Final = 500


class OnFailure(Enum):
    """The fate of records whose interceptor fails. FAIL and REJECT are the same for producers."""

    FAIL = "fail"
    REJECT = "reject"
    PASS = "pass"
    DROP = "drop"


class Count(NamedTuple):
    """How many records an interceptor let go on, and what else became of them. seconds: that it took."""

    kept: int = 0
    changed: int = 0
    dropped: int = 0
    rejected: int = 0
    failed: int = 0
    seconds: float = 0.0

    def plus(self, other: Count) -> Count:
        return Count(
            self.kept + other.kept,
            self.changed + other.changed,
            self.dropped + other.dropped,
            self.rejected + other.rejected,
            self.failed + other.failed,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """An interceptor of a chain. where: the records' place as it sees it; None: as the chain does."""

    name: InterceptorName
    interceptor: Interceptor
    on_failure: OnFailure
    where: Where | None = None


class Placed(NamedTuple):
    """An interceptor, and a topic as it is called where that stands. route: the path of routes behind which that is;
    None: in front of all."""

    name: InterceptorName
    topic: str
    route: str | None = None


class Rejected(NamedTuple):
    """A record that is refused. place: in its batch."""

    place: int
    text: str


class Failure(NamedTuple):
    """An interceptor that failed, at the record with this offset; of a producer's, its place in the batch."""

    interceptor: InterceptorName
    offset: int
    text: str


@dataclass(slots=True)
class Judged:
    """The outcome of a chain for the records of a partition.

    records: None: they stay as they are. next_offset: behind the last whole batch; kept_until: behind the last one of
    which something goes on; each is -1 if there is none. rejected: nothing goes on. failure: the first one; is_failed:
    nothing goes on because of it.
    """

    records: bytes | None = None
    next_offset: int = -1
    kept_until: int = -1
    rejected: list[Rejected] = field(default_factory=list)
    failure: Failure | None = None
    is_failed: bool = False
    counts: dict[InterceptorName, Count] = field(default_factory=dict)


Complete: TypeAlias = Callable[[Coroutine[Any, Any, Sequence[Outcome]]], Sequence[Outcome]]
"""Waits for an asynchronous interceptor."""


class _Failed(Exception):
    """Nothing of the partition goes on."""


def judge(
    steps: Sequence[Step],
    records: memoryview,
    where: Where,
    clock: Callable[[], float],
    complete: Complete | None = None,
    aborted: Iterable[tuple[int, int]] = (),
) -> Judged:
    """aborted: producer id and first offset of aborted transactions. complete: where asynchronous interceptors may be
    among the steps. Raises CorruptBatch, OldFormat."""
    chain = _Chain(steps, where, clock, complete, aborted)
    try:
        chain.run(records)
    except _Failed:
        chain.judged.is_failed = True
        chain.judged.records = None
    return chain.judged


class _Chain:
    def __init__(
        self,
        steps: Sequence[Step],
        where: Where,
        clock: Callable[[], float],
        complete: Complete | None,
        aborted: Iterable[tuple[int, int]],
    ) -> None:
        self.judged = Judged()
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
            self.judged.next_offset = head.last + 1
            new = None if self._is_left_out(head) else self._batch(batch, head)
            is_changed = is_changed or new is not batch
            if new is not None:
                self.judged.kept_until = head.last + 1
                pieces.append(new)
        if is_changed or end < len(records):
            self.judged.records = b"".join(pieces)

    def _is_left_out(self, head: BatchHead) -> bool:
        """Whether it is of an aborted transaction; each batch is of one producer."""
        while self._transactions and self._transactions[-1][1] <= head.last:
            self._aborting.add(self._transactions.pop()[0])
        if head.is_control:
            self._aborting.discard(head.producer_id)
            return False
        return head.is_transactional and head.producer_id in self._aborting

    def _batch(self, batch: memoryview, head: BatchHead) -> bytes | memoryview | None:
        """The batch as it goes on; None: nothing of it does."""
        if head.is_control or not head.records:
            return batch
        found: list[RecordFields] | None = None
        here: list[Record] = []
        before: list[Record] = []
        for step in self._steps:
            began = self._clock()
            if step.interceptor.reads is Reads.BATCH:
                outcomes = self._check_batch(step, batch, head)
            else:
                if found is None:
                    found = records_of(batch)
                    here = before = [_record(each, head.base) for each in found]
                outcomes = self._outcomes(step, here)
            count, here = self._apply(step, here, outcomes, head)
            self._count(step, count._replace(seconds=self._clock() - began))
            if found is not None and not here:
                return None
        if found is None or (len(here) == len(before) and all(map(_is_same, here, before))):
            return batch
        times = {each.offset: each.timestamp for each in before}
        has_new_times = any(times[each.offset] != each.timestamp for each in here)
        return rewritten(batch, [_fields(each, head.base) for each in here], has_new_times=has_new_times)

    def _check_batch(self, step: Step, batch: memoryview, head: BatchHead) -> Sequence[Outcome] | Exception:
        described = Batch(head.records, len(batch), head.codec, head.is_transactional)
        try:
            step.interceptor.check_batch(described, step.where or self._where)
        except MemoryError:
            raise
        except Exception as problem:  # noqa: BLE001 - of users' code: it is told with the offset
            return problem
        return ()

    def _outcomes(self, step: Step, records: list[Record]) -> Sequence[Outcome] | Exception:
        """An exception counts for all records."""
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
        except Exception as problem:  # noqa: BLE001 - of users' code: it is told with the offset
            return problem
        return outcomes

    def _apply(
        self, step: Step, records: list[Record], outcomes: Sequence[Outcome] | Exception, head: BatchHead
    ) -> tuple[Count, list[Record]]:
        """The records that go on to the next step."""
        if isinstance(outcomes, Exception) and not records:  # of a batch that was not read
            return self._batch_refused(step, outcomes, head), records
        if isinstance(outcomes, Exception):
            outcomes = [outcomes] * len(records)
        if not outcomes:
            return Count(kept=head.records), records
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
        return Count(unchanged, changed, dropped, rejected, failed), kept

    def _one(self, step: Step, record: Record, outcome: object) -> Outcome:
        """The outcome, if it is one that the interceptor may have; else the mistake in it."""
        if outcome is Verdict.KEEP:
            return record
        if isinstance(outcome, Reject):
            return outcome if self._where.on is On.PRODUCE else RuntimeError(f"rejected: {outcome}")
        if isinstance(outcome, Exception):
            return outcome
        effect = step.interceptor.effect
        if outcome is Verdict.DROP:
            if effect is Effect.FILTER and self._where.on is On.FETCH:
                return Verdict.DROP
            return TypeError(f"an interceptor with effect {effect.name} drops nothing on {self._where.on.value}")
        if not isinstance(outcome, Record):
            return TypeError(f"{type(outcome).__name__} instead of KEEP, DROP or a Record")
        if effect is Effect.CHECK:
            return TypeError("an interceptor with effect CHECK changes nothing")
        return _merged(record, outcome, step.interceptor.reads)

    def _batch_refused(self, step: Step, problem: Exception, head: BatchHead) -> Count:
        if isinstance(problem, Reject) and self._where.on is On.PRODUCE:
            self._reject(0, problem)
            return Count(rejected=head.records)
        if self._failed(step, head.base, problem) is OnFailure.DROP:
            raise _Failed  # to drop is for those that read records
        return Count(failed=head.records)

    def _reject(self, index: int, problem: Reject) -> None:
        if len(self.judged.rejected) < MOST_REJECTED:
            self.judged.rejected.append(Rejected(index, str(problem)[:LONGEST_TEXT] or "rejected"))

    def _failed(self, step: Step, offset: int, problem: Exception) -> OnFailure:
        if self.judged.failure is None:
            text = f"{type(problem).__name__}: {problem}"[:LONGEST_TEXT]
            self.judged.failure = Failure(step.name, offset, text)
        if step.on_failure in (OnFailure.FAIL, OnFailure.REJECT):
            self._count(step, Count(failed=1))
            raise _Failed
        return step.on_failure

    def _count(self, step: Step, count: Count) -> None:
        self.judged.counts[step.name] = self.judged.counts.get(step.name, Count()).plus(count)


def _record(fields: RecordFields, base: int) -> Record:
    delta, timestamp, key, value, headers = fields
    size = len(key or b"") + len(value or b"") + sum(len(name.encode()) + len(each or b"") for name, each in headers)
    return Record(key, value, tuple(headers), timestamp, base + delta, size)


def _fields(record: Record, base: int) -> RecordFields:
    return RecordFields(record.offset - base, record.timestamp, record.key, record.value, list(record.headers))


def _is_same(one: Record, other: Record) -> bool:
    return one is other or one == other


def _merged(record: Record, new: Record, reads: Reads) -> Record | TypeError:
    """What was not shown stays."""
    headers, timestamp = new.headers, new.timestamp
    key = new.key if reads >= Reads.KEY else record.key
    value = new.value if reads >= Reads.VALUE else record.value
    if not (_is_bytes(key) and _is_bytes(value)):
        return TypeError("key and value of a Record are bytes or None")
    if not isinstance(timestamp, int) or not -1 <= timestamp < 1 << 62:
        return TypeError("the timestamp of a Record is a number of milliseconds")
    try:
        if not all(isinstance(name, str) and _is_bytes(content) for name, content in headers):
            return TypeError("headers are pairs of a text and bytes or None")
    except (TypeError, ValueError):
        return TypeError("headers are pairs of a text and bytes or None")
    merged = record._replace(key=key, value=value, headers=tuple(headers), timestamp=timestamp)
    return record if merged == record else merged


def _is_bytes(value: object) -> bool:
    return value is None or isinstance(value, bytes)
