"""Answers to share members that wait until their acknowledgements are stored upstream.

As with commits, an acknowledgement that is not stored in time gets an error that clients retry. If a cluster is down,
its acknowledgements are answered at once (docs/decisions/0009).
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
class NeededAcknowledgements:
    """The acknowledgements of one partition that must be stored before an answer. ledger: the ledger of the partition
    at the time of the acknowledgement."""

    partition: Partition
    ledger: Ledger
    holding: Holding
    settling: Sequence[Settling]

    @property
    def is_lost(self) -> bool:
        """True if the partition moved to another process, or its offsets started again."""
        return self.partition.ledger is not self.ledger or self.partition.ownership is Ownership.UNASSIGNED

    @property
    def is_stored(self) -> bool:
        return all(each.is_stored(self.ledger) for each in self.settling)

    def note_answered(self) -> None:
        """Notes that the member is told that its acknowledgements are stored."""
        self.holding.note_answered(self.settling)


@dataclass(slots=True, eq=False)
class AcknowledgementOutcome:
    """The outcome of the acknowledgements of one request, by partition. needed: the parts that are not stored yet.
    settles: whether the request had such parts at first."""

    errors: dict[NamedPartition, ErrorCode] = field(default_factory=dict)
    needed: dict[NamedPartition, NeededAcknowledgements] = field(default_factory=dict)
    settles: bool = False
    timer: Timer | None = None
    answer: Callable[[Errors], None] | None = None
    """Sends the answer of the request, with these errors."""


class ShareAnswers:
    """The outcomes of one pool that are not known yet."""

    def __init__(self, parts: PoolParts, commits: Commits) -> None:
        self._timeout = parts.settings.commit_timeout
        self._timers = parts.timers
        self._commits = commits
        self._open: dict[AcknowledgementOutcome, None] = {}
        self._looked_at: tuple[int, int] | None = None
        """The counts of stored commits and of voided partitions at the last check; None forces a check."""

    def __len__(self) -> int:
        return len(self._open)

    def watch(self, outcome: AcknowledgementOutcome, now: float) -> None:
        """Watches acknowledgements that were just carried out."""
        if outcome.needed:
            outcome.settles = True
            self._open[outcome] = None
            self._looked_at = None
            outcome.timer = self._timers.at(now + self._timeout, lambda _: self._time_out(outcome))

    def answer(self, outcome: AcknowledgementOutcome, answer: Callable[[Errors], None]) -> None:
        """Calls `answer` as soon as the outcome is known."""
        outcome.answer = answer
        self._answer_if_known(outcome)

    def stored(self, lost: int) -> None:
        """Checks, at the end of a step, which acknowledgements are stored or lost. Most steps change neither, which the
        counts show. lost: how often the state of a partition was voided."""
        now = (self._commits.reports, lost)
        if now == self._looked_at:
            return
        self._looked_at = now
        for outcome in list(self._open):
            for name, needed in list(outcome.needed.items()):
                if needed.is_lost:
                    outcome.errors[name] = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    del outcome.needed[name]
                elif needed.is_stored or self._commits.does_not_wait_for(needed.partition.source.cluster):
                    needed.note_answered()
                    del outcome.needed[name]
            self._answer_if_known(outcome)

    def forget(self, outcomes: Iterable[AcknowledgementOutcome]) -> None:
        """Forgets the outcomes of requests whose connections have ended."""
        for outcome in outcomes:
            self._end(outcome)

    def _time_out(self, outcome: AcknowledgementOutcome) -> None:
        for name in outcome.needed:
            outcome.errors[name] = ErrorCode.KAFKA_STORAGE_ERROR
        outcome.needed.clear()
        self._answer_if_known(outcome)

    def _answer_if_known(self, outcome: AcknowledgementOutcome) -> None:
        if outcome.needed:
            return
        self._end(outcome)
        if outcome.answer is not None:
            answer, outcome.answer = outcome.answer, None
            answer(outcome.errors)

    def _end(self, outcome: AcknowledgementOutcome) -> None:
        self._open.pop(outcome, None)
        if outcome.timer is not None:
            outcome.timer.cancel()
