"""From what the group assigns to what can be read: one try after the other to learn where each partition begins.

A try asks the group what it has committed, and the leaders where logs end, and where those begin of which nothing is
committed; that is stored in the group before anything is read. What succeeds for a partition does not wait for what
fails for another one: a partition that nobody leads, or whose topic the group may not use, is left for the next try.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.upstream.engine import Unopenable
from mesh.upstream.librdkafka.commit_queue import Errors
from mesh.upstream.librdkafka.positions.bounds import Bounds, LogBounds
from mesh.upstream.problems import OF_TOPICS, UpstreamProblem, problem_of

REQUEST_TIMEOUT: Final = 5.0
RETRY: Final = 1.0
LONGEST_REST: Final = 5.0
"""Seconds until what could not be opened is tried again; they double from one to the other. A try waits for nothing but
one request to the coordinator, and that only where it has not said what is committed."""

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
"""What a coordinator answers for each partition, and means the group."""


class Store(Protocol):
    def __call__(
        self,
        positions: Mapping[UpstreamPartition, CommitPosition],
        answered: Callable[[Errors], None],
        ours: Container[UpstreamPartition],
    ) -> None:
        """Commit these, as far as they are `ours` when they are sent; `answered` is told the error codes."""


@dataclass(frozen=True, slots=True)
class Tried:
    """How a try ended. committed: of what the group was asked for, and of new starts that it has stored. opened:
    partitions that can be read from there. ends: where logs end, as far as somebody said."""

    committed: Mapping[UpstreamPartition, CommitPosition]
    opened: Collection[UpstreamPartition]
    ends: Mapping[UpstreamPartition, int]
    is_first: bool


@dataclass(slots=True, eq=False)
class _Try:
    """sources: to be opened. fresh: those of them of which nothing is committed. starting: where these begin, while
    the group stores it. is_stored: nothing is, any more."""

    sources: set[UpstreamPartition]
    committed: dict[UpstreamPartition, CommitPosition]
    failed: dict[UpstreamPartition, KafkaError]
    fresh: Collection[UpstreamPartition]
    is_first: bool
    bounds: Bounds | None = None
    starting: dict[UpstreamPartition, CommitPosition] = field(default_factory=dict)
    is_stored: bool = False

    def end(self, errors: Errors) -> None:
        """The group has stored the starts, or has not."""
        for source, position in self.starting.items():
            if code := errors.get(source, 0):
                self.failed[source] = KafkaError(code)
            else:
                self.committed[source] = position
        self.is_stored = True


class Opening:
    """Everything runs on the consumer's thread. unopened: assigned, and not open."""

    def __init__(
        self, cluster: ClusterName, start: Literal["earliest", "latest"], bounds: LogBounds, store: Store
    ) -> None:
        self.unopened: set[UpstreamPartition] = set()
        self.failed: dict[UpstreamPartition, Unopenable] = {}
        """Those of them that were tried."""
        self._cluster = cluster
        self._start = start
        self._bounds = bounds
        self._store = store
        self._starts: dict[UpstreamPartition, int] = {}
        """Where those begin that could not be stored: a group that starts at the end has started once."""
        self._nothing_committed: set[UpstreamPartition] = set()
        self._try: _Try | None = None
        self._is_new = False
        self._try_at = 0.0
        self._rest = RETRY

    @property
    def is_new(self) -> bool:
        """Whether the assignment was not tried at all."""
        return self._is_new

    @property
    def is_trying(self) -> bool:
        return self._try is not None

    def assign(self, sources: set[UpstreamPartition]) -> None:
        """The group has assigned something new; these are now to be opened."""
        self._change(sources)
        self._is_new, self._try_at, self._rest = True, 0.0, RETRY

    def revoke(self, sources: Collection[UpstreamPartition]) -> None:
        """These are not to be opened any more."""
        if not self.unopened.isdisjoint(sources):
            self._change(self.unopened.difference(sources))

    def forget(self) -> None:
        """Nothing is assigned."""
        self._change(set())
        self._is_new = False

    def begin_anew(self, topic: TopicName) -> None:
        """It is another topic than before."""
        self._starts = {source: at for source, at in self._starts.items() if source.topic != topic}

    def look(self, consumer: Consumer, open_ones: Iterable[UpstreamPartition], now: float) -> Tried | None:
        """Go on; what a try has led to, when it has ended. Raises KafkaException if the group does not answer: it is
        asked again after `RETRY` seconds."""
        if self._try is None:
            if now < self._try_at or not (self.unopened or self._is_new):
                return None
            self._try_at = now + RETRY
            self._try = self._begin(consumer, open_ones, now)
        trying = self._try
        if trying.bounds is None:
            trying.bounds = self._bounds.answer(now)
            if trying.bounds is None:
                return None
            self._begin_to_store(trying, trying.bounds)
        return self._end(trying, trying.bounds, now) if trying.is_stored else None

    def _change(self, sources: set[UpstreamPartition]) -> None:
        """What was asked about others answers nothing any more."""
        self.unopened = sources
        for known in (self.failed, self._starts):
            for source in [source for source in known if source not in sources]:
                del known[source]
        self._nothing_committed.clear()
        if self._try is not None:
            self._try.sources.clear()
            self._try = None

    def _begin(self, consumer: Consumer, open_ones: Iterable[UpstreamPartition], now: float) -> _Try:
        asked = {*self.unopened, *open_ones} if self._is_new else self.unopened - self._nothing_committed
        committed, failed = self._committed(consumer, sorted(asked))
        self._nothing_committed |= (asked & self.unopened) - committed.keys() - failed.keys()
        fresh = self.unopened & self._nothing_committed
        without = {source for source in fresh if source not in self._starts}
        ends = {*asked, *(without if self._start == "latest" else ())} - failed.keys()
        self._bounds.ask(sorted(without) if self._start == "earliest" else (), sorted(ends), now)
        return _Try(set(self.unopened), committed, failed, fresh, self._is_new)

    def _committed(
        self, consumer: Consumer, sources: Collection[UpstreamPartition]
    ) -> tuple[dict[UpstreamPartition, CommitPosition], dict[UpstreamPartition, KafkaError]]:
        """What of these the group has committed, and of which it does not say. Raises KafkaException."""
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

    def _begin_to_store(self, trying: _Try, bounds: Bounds) -> None:
        """One that dies before its first commit must not begin elsewhere next time."""
        found = bounds.begins if self._start == "earliest" else bounds.ends
        for source in trying.fresh:
            start = self._starts.get(source, found.get(source))
            if isinstance(start, int):
                self._starts[source] = start
                trying.starting[source] = CommitPosition(start)
            elif start is not None:
                trying.failed[source] = start
        if trying.starting:
            self._store(trying.starting, trying.end, trying.sources)
        else:
            trying.is_stored = True

    def _end(self, trying: _Try, bounds: Bounds, now: float) -> Tried:
        self._try, self._is_new = None, False
        opened = trying.sources & trying.committed.keys()
        self.unopened -= opened
        self.failed = {source: self._unopenable(source, error) for source, error in trying.failed.items()}
        for source in opened:
            self._starts.pop(source, None)
        self._nothing_committed -= opened
        self._try_at, self._rest = now + self._rest, min(2 * self._rest, LONGEST_REST)
        ends = {source: end for source, end in bounds.ends.items() if isinstance(end, int)}
        return Tried(trying.committed, opened, ends, trying.is_first)

    def _unopenable(self, source: UpstreamPartition, error: KafkaError) -> Unopenable:
        """That a topic is missing is told by whoever looks at all topics; a leader may be missing for a moment."""
        if problem_of(error) is UpstreamProblem.NOT_AUTHORIZED:
            return Unopenable(error.str(), UpstreamProblem.NOT_AUTHORIZED, lasts=True)
        return Unopenable(
            error.str(), UpstreamProblem.UNREADABLE, source in self.failed and error.code() not in OF_TOPICS
        )


def topic_partition(source: UpstreamPartition, offset: int = OFFSET_BEGINNING) -> TopicPartition:
    return TopicPartition(source.topic, source.partition, offset)
