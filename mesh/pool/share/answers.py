"""Answers to share members that wait until what they acknowledged is stored upstream.

As with commits: one that is not stored in time is answered with an error that clients retry, and what a cluster cannot
store because it is down is not waited for (docs/decisions/0009).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.timers import Timer
from mesh.pool.offsets.commits import Commits
from mesh.pool.share.requests import NamedPartition
from mesh.pool.state.acquired import Holding, Settling
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.partition import Ownership, Partition
from mesh.wire.errors import ErrorCode

Errors: TypeAlias = Mapping[NamedPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class Needed:
    """What has to be stored of one partition; `ledger` was its own when that was acknowledged."""

    partition: Partition
    ledger: Ledger
    holding: Holding
    settling: Sequence[Settling]

    @property
    def is_lost(self) -> bool:
        """Whether the partition went to another process, or begins anew."""
        return self.partition.ledger is not self.ledger or self.partition.ownership is Ownership.UNASSIGNED

    @property
    def is_stored(self) -> bool:
        return all(each.is_stored(self.ledger) for each in self.settling)

    def tell(self) -> None:
        """Its member is told that it is stored: from now on it has no reason to say it again."""
        self.holding.settling = [each for each in self.holding.settling if each not in self.settling]


@dataclass(slots=True, eq=False)
class Outcome:
    """What becomes of the acknowledgements of one request, by partition. needed: what is not known yet."""

    errors: dict[NamedPartition, ErrorCode] = field(default_factory=dict)
    needed: dict[NamedPartition, Needed] = field(default_factory=dict)
    timer: Timer | None = None
    answer: Callable[[Errors], None] | None = None
    """Once it is complete but for these."""


class ShareAnswers:
    """The outcomes of one pool that are not known yet."""

    def __init__(self, parts: PoolParts, commits: Commits) -> None:
        self._timeout = parts.settings.commit_timeout
        self._timers = parts.timers
        self._commits = commits
        self._open: dict[Outcome, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def watch(self, outcome: Outcome, now: float) -> None:
        """Its acknowledgements were taken just now."""
        if outcome.needed:
            self._open[outcome] = None
            outcome.timer = self._timers.at(now + self._timeout, lambda _: self._time_out(outcome))

    def answer(self, outcome: Outcome, answer: Callable[[Errors], None]) -> None:
        """As soon as the outcome is known."""
        outcome.answer = answer
        self._answer_if_known(outcome)

    def stored(self) -> None:
        """A step ends, in which something may have been stored or lost."""
        for outcome in list(self._open):
            for name, needed in list(outcome.needed.items()):
                if needed.is_lost:
                    outcome.errors[name] = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    del outcome.needed[name]
                elif needed.is_stored or self._commits.waits_in_vain_for(needed.partition.source.cluster):
                    needed.tell()
                    del outcome.needed[name]
            self._answer_if_known(outcome)

    def forget(self, outcomes: Iterable[Outcome]) -> None:
        """Nobody waits for these any more."""
        for outcome in outcomes:
            self._end(outcome)

    def _time_out(self, outcome: Outcome) -> None:
        for name in outcome.needed:
            outcome.errors[name] = ErrorCode.KAFKA_STORAGE_ERROR
        outcome.needed.clear()
        self._answer_if_known(outcome)

    def _answer_if_known(self, outcome: Outcome) -> None:
        if outcome.needed:
            return
        self._end(outcome)
        if outcome.answer is not None:
            answer, outcome.answer = outcome.answer, None
            answer(outcome.errors)

    def _end(self, outcome: Outcome) -> None:
        self._open.pop(outcome, None)
        if outcome.timer is not None:
            outcome.timer.cancel()
