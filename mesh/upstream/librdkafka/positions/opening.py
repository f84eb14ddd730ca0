"""Opens assigned partitions: tries repeatedly to learn the start position of each.

An attempt asks the group for its commits, and the leaders for the ends of logs, and for the starts of those without a
commit. A start position is committed to the group before anything is read. A partition that succeeds does not wait for
one that fails: a partition without a leader, or of a topic that the group may not use, is left for the next attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.upstream.engine import Start, Unopenable
from mesh.upstream.librdkafka.commit_queue import Errors
from mesh.upstream.librdkafka.positions.bounds import Bounds, LogBounds
from mesh.upstream.problems import OF_TOPICS, UpstreamProblem, problem_of

REQUEST_TIMEOUT: Final = 5.0
RETRY: Final = 1.0
MAX_RETRY_DELAY: Final = 5.0
"""The most seconds until a failed partition is tried again; the pause doubles. An attempt blocks for one request to the
coordinator at most, and only if the committed offset is unknown."""

_OF_THE_GROUP: Final = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
"""Errors that a coordinator returns for each partition, but that concern the whole group."""


class StoreStarts(Protocol):
    def __call__(
        self,
        positions: Mapping[UpstreamPartition, CommitPosition],
        answered: Callable[[Errors], None],
        ours: Container[UpstreamPartition],
    ) -> None:
        """Commits these positions, except those of partitions that are not `ours` when they are sent. `answered` gets
        the error codes."""


@dataclass(frozen=True, slots=True)
class OpeningResult:
    """The result of an attempt. committed: the group's commits, with the start positions just committed. opened: the
    partitions that can be read from there. ends: the known ends of logs."""

    committed: Mapping[UpstreamPartition, CommitPosition]
    opened: Collection[UpstreamPartition]
    ends: Mapping[UpstreamPartition, int]
    is_first: bool


@dataclass(slots=True, eq=False)
class _Attempt:
    """An attempt to open partitions. sources: the partitions to open. uncommitted: those without a commit. starting:
    their start positions, while the group stores them. is_stored: True when nothing is left to store."""

    sources: set[UpstreamPartition]
    committed: dict[UpstreamPartition, CommitPosition]
    failed: dict[UpstreamPartition, KafkaError]
    uncommitted: Collection[UpstreamPartition]
    is_first: bool
    bounds: Bounds | None = None
    starting: dict[UpstreamPartition, CommitPosition] = field(default_factory=dict)
    is_stored: bool = False

    def end(self, errors: Errors) -> None:
        """Notes which start positions the group has stored."""
        for source, position in self.starting.items():
            if code := errors.get(source, 0):
                self.failed[source] = KafkaError(code)
            else:
                self.committed[source] = position
        self.is_stored = True


class Opening:
    """The opening of assigned partitions; everything runs on the consumer's thread. unopened: the partitions that are
    assigned but not open."""

    def __init__(self, cluster: ClusterName, start: Start, bounds: LogBounds, store: StoreStarts) -> None:
        self.unopened: set[UpstreamPartition] = set()
        self.failed: dict[UpstreamPartition, Unopenable] = {}
        """Partitions for which the last attempt failed."""
        self._cluster = cluster
        self._start = start
        self._bounds = bounds
        self._store = store
        self._starts: dict[UpstreamPartition, int] = {}
        """Start positions that could not be stored: a group that starts at the end must look up the end only once."""
        self._nothing_committed: set[UpstreamPartition] = set()
        self._attempt: _Attempt | None = None
        self._is_new = False
        self._try_at = 0.0
        self._retry_delay = RETRY

    @property
    def is_new(self) -> bool:
        """Returns whether no attempt of the current assignment has ended yet."""
        return self._is_new

    @property
    def is_attempting(self) -> bool:
        return self._attempt is not None

    def assign(self, sources: set[UpstreamPartition]) -> None:
        """Notes a new assignment: these partitions are now to be opened."""
        self._change(sources)
        self._is_new, self._try_at, self._retry_delay = True, 0.0, RETRY

    def revoke(self, sources: Collection[UpstreamPartition]) -> None:
        """Takes out partitions that need not be opened any more."""
        if not self.unopened.isdisjoint(sources):
            self._change(self.unopened.difference(sources))

    def forget(self) -> None:
        """Forgets all partitions: nothing is assigned."""
        self._change(set())
        self._is_new = False

    def topic_recreated(self, topic: TopicName) -> None:
        """Forgets the start positions of a topic that was recreated."""
        self._starts = {source: at for source, at in self._starts.items() if source.topic != topic}

    def poll(self, consumer: Consumer, open_ones: Iterable[UpstreamPartition], now: float) -> OpeningResult | None:
        """Continues, and returns the result of an attempt that has ended. Raises KafkaException if the group does not
        answer: the next attempt comes after `RETRY` seconds."""
        if self._attempt is None:
            if now < self._try_at or not (self.unopened or self._is_new):
                return None
            self._try_at = now + RETRY
            self._attempt = self._begin(consumer, open_ones, now)
        attempt = self._attempt
        if attempt.bounds is None:
            attempt.bounds = self._bounds.answer(now)
            if attempt.bounds is None:
                return None
            self._begin_to_store(attempt, attempt.bounds)
        return self._end(attempt, attempt.bounds, now) if attempt.is_stored else None

    def _change(self, sources: set[UpstreamPartition]) -> None:
        """Replaces the partitions to open; answers to an earlier attempt are dropped."""
        self.unopened = sources
        for known in (self.failed, self._starts):
            for source in [source for source in known if source not in sources]:
                del known[source]
        self._nothing_committed.clear()
        if self._attempt is not None:
            self._attempt.sources.clear()
            self._attempt = None

    def _begin(self, consumer: Consumer, open_ones: Iterable[UpstreamPartition], now: float) -> _Attempt:
        asked = {*self.unopened, *open_ones} if self._is_new else self.unopened - self._nothing_committed
        committed, failed = self._committed(consumer, sorted(asked))
        self._nothing_committed |= (asked & self.unopened) - committed.keys() - failed.keys()
        uncommitted = self.unopened & self._nothing_committed
        without = {source for source in uncommitted if source not in self._starts}
        ends = {*asked, *(without if self._start != "earliest" else ())} - failed.keys()
        since = self._start if isinstance(self._start, int) else None
        self._bounds.ask(sorted(without) if self._start != "latest" else (), sorted(ends), now, since)
        return _Attempt(set(self.unopened), committed, failed, uncommitted, self._is_new)

    def _committed(
        self, consumer: Consumer, sources: Collection[UpstreamPartition]
    ) -> tuple[dict[UpstreamPartition, CommitPosition], dict[UpstreamPartition, KafkaError]]:
        """Returns the group's commits of these partitions, and errors for the others. Raises KafkaException."""
        asked = [topic_partition(source) for source in sources]
        answers = consumer.committed(asked, timeout=REQUEST_TIMEOUT) if asked else []
        committed: dict[UpstreamPartition, CommitPosition] = {}
        failed: dict[UpstreamPartition, KafkaError] = {}
        for each in answers:
            source = UpstreamPartition(self._cluster, TopicName(each.topic), each.partition)
            if each.error is not None:
                if each.error.code() in _OF_THE_GROUP:
                    raise KafkaException(each.error)
                failed[source] = each.error
            elif each.offset >= 0:
                epoch = -1 if each.leader_epoch is None else each.leader_epoch
                committed[source] = CommitPosition(each.offset, each.metadata or "", epoch)
        return committed, failed

    def _begin_to_store(self, attempt: _Attempt, bounds: Bounds) -> None:
        """Begins to store the start positions of partitions without a commit. Otherwise a process that dies before its
        first commit would start elsewhere the next time."""
        found = bounds.begins if self._start == "earliest" else {**bounds.ends, **bounds.begins}
        for source in attempt.uncommitted:
            start = self._starts.get(source, found.get(source))
            if isinstance(start, int):
                self._starts[source] = start
                attempt.starting[source] = CommitPosition(start)
            elif start is not None:
                attempt.failed[source] = start
        if attempt.starting:
            self._store(attempt.starting, attempt.end, attempt.sources)
        else:
            attempt.is_stored = True

    def _end(self, attempt: _Attempt, bounds: Bounds, now: float) -> OpeningResult:
        self._attempt, self._is_new = None, False
        opened = attempt.sources & attempt.committed.keys()
        self.unopened -= opened
        self.failed = {source: self._unopenable(source, error) for source, error in attempt.failed.items()}
        for source in opened:
            self._starts.pop(source, None)
        self._nothing_committed -= opened
        self._try_at, self._retry_delay = now + self._retry_delay, min(2 * self._retry_delay, MAX_RETRY_DELAY)
        ends = {source: end for source, end in bounds.ends.items() if isinstance(end, int)}
        return OpeningResult(attempt.committed, opened, ends, attempt.is_first)

    def _unopenable(self, source: UpstreamPartition, error: KafkaError) -> Unopenable:
        """Returns the reason why a partition cannot be opened. The catalog reports a missing topic; a leader may be
        missing for a moment."""
        if problem_of(error) is UpstreamProblem.NOT_AUTHORIZED:
            return Unopenable(error.str(), UpstreamProblem.NOT_AUTHORIZED, lasts=True)
        return Unopenable(
            error.str(), UpstreamProblem.UNREADABLE, source in self.failed and error.code() not in OF_TOPICS
        )


def topic_partition(source: UpstreamPartition, offset: int = OFFSET_BEGINNING) -> TopicPartition:
    return TopicPartition(source.topic, source.partition, offset)
