"""Runs the interceptors of a virtual cluster on the records of requests, within their timeouts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias, assert_never

from mesh.interceptors.chain import (
    ChainResult,
    ChainStep,
    InterceptorFailure,
    InterceptorName,
    OnFailure,
    RecordCount,
    run_chain,
)
from mesh.interceptors.frames import Task, UnreadableRecords
from mesh.interceptors.selection import Chosen
from mesh.interceptors.sequences import SequencedBatch, Unsequenced
from mesh.records.batch import CorruptBatch
from mesh.records.rewrite import OldFormatRecords
from mesh.runtime.interception.workers import WorkerLost, Workers
from mesh.telemetry.labels import BoundedLabels
from mesh.telemetry.log_rate import LogRate
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

MOST_TOPICS: Final = 1_000
"""The most topics with counts of their own. Clients may produce to any number of topics that do not exist."""


class NotIntercepted(Enum):
    """The reason why the records of a partition were not intercepted."""

    TIMED_OUT = "timed out"
    CORRUPT = "no batches, or a wrong checksum"
    OLD_FORMAT = "a format of before Kafka 0.11"


Result: TypeAlias = ChainResult | NotIntercepted


@dataclass(frozen=True, slots=True)
class InterceptorWork:
    """The records of a partition, and the interceptors that were chosen for them."""

    chosen: Chosen
    task: Task


@dataclass(slots=True, eq=False)
class InterceptorCounts:
    """The counts of the interceptors of a virtual cluster. records: outcomes by interceptor and topic."""

    records: dict[tuple[InterceptorName, str], RecordCount] = field(default_factory=dict)
    timeouts: dict[InterceptorName, int] = field(default_factory=dict)
    unsequenced: Counter[Unsequenced] = field(default_factory=Counter)


class InterceptorRunner:
    """Runs the interceptors of one virtual cluster.

    steps: the interceptors that run inline. workers: None if all interceptors run inline.
    """

    def __init__(
        self,
        virtual_cluster: str,
        steps: Mapping[InterceptorName, ChainStep],
        workers: Workers | None,
        clock: Callable[[], float],
    ) -> None:
        self.name: Final = virtual_cluster
        self.workers: Final = workers
        self.counts: Final = InterceptorCounts()
        self._steps: Final = steps
        self._clock: Final = clock
        self._rate: Final = LogRate()
        self._topics: Final = BoundedLabels(MOST_TOPICS)

    def close(self) -> None:
        if self.workers is not None:
            self.workers.close()

    async def run(self, works: Sequence[InterceptorWork]) -> list[Result]:
        """Runs the interceptors on the works, and returns one result for each. Each attempt takes at most the longest
        timeout of these interceptors. There is one attempt more than the most retries of one of them."""
        results: list[Result | None] = [None] * len(works)
        lost: dict[int, str] = {}
        every = [each for work in works for each in work.chosen.interceptors]
        seconds = max((each.timeout for each in every), default=0.0)
        attempts = 1 + max((each.retries for each in every), default=0)
        for _ in range(attempts):
            left = [index for index, result in enumerate(results) if result is None]
            if not left:
                break
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*(self._run_one(works[index], index, results, lost) for index in left))
            except TimeoutError:
                self._count_timeouts([works[index] for index in left if results[index] is None and index not in lost])
        return [
            self._count_result(
                works[index], self._given_up(works[index], lost.get(index)) if result is None else result
            )
            for index, result in enumerate(results)
        ]

    async def _run_one(
        self, work: InterceptorWork, index: int, results: list[Result | None], lost: dict[int, str]
    ) -> None:
        lost.pop(index, None)
        if work.chosen.is_inline:
            await asyncio.sleep(0)  # let other tasks run between two partitions
            results[index] = self._run_inline(work)
            return
        assert self.workers is not None, "what does not run inline runs in workers"
        try:
            answer = await self.workers.run(work.task)
        except WorkerLost as problem:
            lost[index] = str(problem)
            return
        if isinstance(answer, UnreadableRecords):
            results[index] = NotIntercepted.OLD_FORMAT if answer.is_old else NotIntercepted.CORRUPT
        else:
            results[index] = answer

    def _run_inline(self, work: InterceptorWork) -> Result:
        task = work.task
        try:
            chain = list(task.chain(self._steps))
            return run_chain(
                chain, memoryview(task.records), task.where, self._clock, aborted=task.aborted, decided=task.decided
            )
        except CorruptBatch:
            return NotIntercepted.CORRUPT
        except OldFormatRecords:
            return NotIntercepted.OLD_FORMAT
        except (ValueError, OverflowError, MemoryError) as problem:  # a record that does not fit into a batch
            return _failed(work, f"{type(problem).__name__}: {problem}")

    def _given_up(self, work: InterceptorWork, reason: str | None) -> Result:
        """The result of a work after its last attempt. reason: the reason why the last worker was lost; None if the
        time ran out."""
        if reason is None:
            return NotIntercepted.TIMED_OUT
        return _failed(work, f"the worker was lost: {reason}")

    def _count_timeouts(self, works: Sequence[InterceptorWork]) -> None:
        timeouts = self.counts.timeouts
        for name in {name for work in works for name in work.task.names}:
            timeouts[name] = timeouts.get(name, 0) + 1

    def _count_result(self, work: InterceptorWork, result: Result) -> Result:
        where = work.task.where
        if isinstance(result, NotIntercepted):
            self._log_failure(work, work.task.names[0], -1, result.value)
            return result
        self.count(result, where.topic)
        if result.failure is not None:
            self._log_failure(work, *result.failure)
        return result

    def count(self, judged: ChainResult, topic: str) -> None:
        """Counts the outcomes of a partition. topic: a client's name for it, whether the topic exists or not."""
        if not judged.counts:
            return
        label = self._topics.admit(topic)
        for name, count in judged.counts.items():
            key = name, label
            self.counts.records[key] = self.counts.records.get(key, RecordCount()).plus(count)

    def unsequenced(self, why: Unsequenced, batch: SequencedBatch) -> None:
        """Counts a producer's batch that is refused because it cannot be numbered."""
        self.counts.unsequenced[why] += 1
        if why is not Unsequenced.UNKNOWN:
            return  # batches overtook each other, and clients send them again
        left_out = self._rate.admit(self._clock())
        if left_out is not None:
            log.warning(
                "producer unknown where records are dropped",
                left_out=left_out,
                virtual_cluster=self.name,
                topic=batch.of.topic,
                partition=batch.of.partition,
                producer_id=batch.of.producer_id,
            )

    def _log_failure(self, work: InterceptorWork, interceptor: InterceptorName, offset: int, text: str) -> None:
        where = work.task.where
        left_out = self._rate.admit(self._clock())
        if left_out is not None:
            log.warning(
                "interceptor failed",
                left_out=left_out,
                virtual_cluster=self.name,
                interceptor=interceptor,
                topic=where.topic,
                partition=where.partition,
                offset=offset,
                on=where.on.value,
                reason=text,
            )


def _failed(work: InterceptorWork, text: str) -> ChainResult:
    """The outcome of a failure by the strictest rule of the interceptors, since it is unknown which of them failed."""
    names = work.task.names
    failure = InterceptorFailure(names[0], -1, text)
    failed = RecordCount(failed=1)
    match work.chosen.on_failure:
        case OnFailure.FAIL | OnFailure.REJECT:
            return ChainResult(failure=failure, is_failed=True, counts={names[0]: failed})
        case OnFailure.DROP:
            return _all_dropped(work, failure, failed)
        case OnFailure.PASS:
            return ChainResult(failure=failure, counts={names[0]: failed})
        case _:
            assert_never(work.chosen.on_failure)


def _all_dropped(work: InterceptorWork, failure: InterceptorFailure, failed: RecordCount) -> ChainResult:
    """The outcome in which all records are dropped. Control batches are dropped as well: the marker that ends a
    transaction follows dropped records."""
    try:
        end = run_chain((), memoryview(work.task.records), work.task.where, lambda: 0.0).next_offset
    except (CorruptBatch, OldFormatRecords):
        return ChainResult(failure=failure, is_failed=True)
    return ChainResult(b"", end, -1, failure=failure, counts={work.task.names[0]: failed})
