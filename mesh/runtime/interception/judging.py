"""Lets the interceptors of a virtual cluster see the records of a request, in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias, assert_never

from mesh.interceptors.chain import Count, Failure, InterceptorName, Judged, OnFailure, Step, judge
from mesh.interceptors.frames import Task, Unreadable
from mesh.interceptors.selection import Chosen
from mesh.records.batch import CorruptBatch
from mesh.records.rewrite import OldFormat
from mesh.runtime.interception.workers import WorkerLost, Workers
from mesh.telemetry.labels import BoundedLabels
from mesh.telemetry.log_rate import LogRate
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

MOST_TOPICS: Final = 1_000
"""That are counted apart: clients may produce to topics that are not there, and think of any number of names."""


class NotJudged(Enum):
    """Why nothing is known of the records of a partition."""

    TIMED_OUT = "timed out"
    CORRUPT = "no batches, or a wrong checksum"
    OLD_FORMAT = "a format of before Kafka 0.11"


Result: TypeAlias = Judged | NotJudged


@dataclass(frozen=True, slots=True)
class Work:
    """The records of a partition for the interceptors that were chosen for it."""

    chosen: Chosen
    task: Task


@dataclass(slots=True, eq=False)
class InterceptorCounts:
    """The counts of the interceptors of a virtual cluster. records: by interceptor and topic."""

    records: dict[tuple[InterceptorName, str], Count] = field(default_factory=dict)
    timeouts: dict[InterceptorName, int] = field(default_factory=dict)


class Judges:
    """The interceptors of one virtual cluster at work.

    steps: of those that run inline. workers: None if all of them do.
    """

    def __init__(
        self,
        virtual_cluster: str,
        steps: Mapping[InterceptorName, Step],
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

    async def judged(self, works: Sequence[Work]) -> list[Result]:
        """One result for each, after the longest time that one of their interceptors has, and as many attempts as one
        of them has, at the latest."""
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
                    await asyncio.gather(*(self._one(works[index], index, results, lost) for index in left))
            except TimeoutError:
                self._timed_out([works[index] for index in left if results[index] is None and index not in lost])
        return [
            self._counted(works[index], self._given_up(works[index], lost.get(index)) if result is None else result)
            for index, result in enumerate(results)
        ]

    async def _one(self, work: Work, index: int, results: list[Result | None], lost: dict[int, str]) -> None:
        lost.pop(index, None)
        if work.chosen.is_inline:
            await asyncio.sleep(0)  # others have their turn between two partitions
            results[index] = self._inline(work)
            return
        assert self.workers is not None, "what does not run inline runs in workers"
        try:
            answer = await self.workers.judge(work.task)
        except WorkerLost as problem:
            lost[index] = str(problem)
            return
        if isinstance(answer, Unreadable):
            results[index] = NotJudged.OLD_FORMAT if answer.is_old else NotJudged.CORRUPT
        else:
            results[index] = answer

    def _inline(self, work: Work) -> Result:
        task = work.task
        try:
            chain = list(task.chain(self._steps))
            return judge(chain, memoryview(task.records), task.where, self._clock, aborted=task.aborted)
        except CorruptBatch:
            return NotJudged.CORRUPT
        except OldFormat:
            return NotJudged.OLD_FORMAT
        except (ValueError, OverflowError, MemoryError) as problem:  # a record that has no room in a batch
            return _failed(work, f"{type(problem).__name__}: {problem}")

    def _given_up(self, work: Work, reason: str | None) -> Result:
        """reason: why the last worker was lost; None: there was no time left."""
        if reason is None:
            return NotJudged.TIMED_OUT
        return _failed(work, f"the worker was lost: {reason}")

    def _timed_out(self, works: Sequence[Work]) -> None:
        timeouts = self.counts.timeouts
        for name in {name for work in works for name in work.task.names}:
            timeouts[name] = timeouts.get(name, 0) + 1

    def _counted(self, work: Work, result: Result) -> Result:
        where = work.task.where
        if isinstance(result, NotJudged):
            self._tell(work, work.task.names[0], -1, result.value)
            return result
        self.count(result, where.topic)
        if result.failure is not None:
            self._tell(work, *result.failure)
        return result

    def count(self, judged: Judged, topic: str) -> None:
        """topic: as a client calls it, whether there is one or not."""
        if not judged.counts:
            return
        label = self._topics.admit(topic)
        for name, count in judged.counts.items():
            key = name, label
            self.counts.records[key] = self.counts.records.get(key, Count()).plus(count)

    def _tell(self, work: Work, interceptor: InterceptorName, offset: int, text: str) -> None:
        where = work.task.where
        left_out = self._rate.admit(self._clock())
        if left_out is not None:
            log.warning(
                "an interceptor failed",
                left_out=left_out,
                virtual_cluster=self.name,
                interceptor=interceptor,
                topic=where.topic,
                partition=where.partition,
                offset=offset,
                on=where.on.value,
                reason=text,
            )


def _failed(work: Work, text: str) -> Judged:
    """By the rule of the interceptor that lets the least pass: which of them it was is not known."""
    names = work.task.names
    failure = Failure(names[0], -1, text)
    failed = Count(failed=1)
    match work.chosen.on_failure:
        case OnFailure.FAIL | OnFailure.REJECT:
            return Judged(failure=failure, is_failed=True, counts={names[0]: failed})
        case OnFailure.DROP:
            return _all_dropped(work, failure, failed)
        case OnFailure.PASS:
            return Judged(failure=failure, counts={names[0]: failed})
        case _:
            assert_never(work.chosen.on_failure)


def _all_dropped(work: Work, failure: Failure, failed: Count) -> Judged:
    """Control batches as well: what ends a transaction stands behind what is gone of it."""
    try:
        end = judge((), memoryview(work.task.records), work.task.where, lambda: 0.0).next_offset
    except (CorruptBatch, OldFormat):
        return Judged(failure=failure, is_failed=True)
    return Judged(b"", end, -1, failure=failure, counts={work.task.names[0]: failed})
