"""Commits on their way to the upstream group. One is in flight at a time, since librdkafka's answers do not identify
their commit.

They are asynchronous. A synchronous commit blocks the thread until the coordinator answers, which may hang. Without a
coordinator librdkafka even keeps one for a whole session. The caller gets an error at the deadline. The next commit
still waits for librdkafka's answer, which would otherwise be taken for its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mesh.records.spans import CommitPosition, TopicName, UpstreamPartition

REQUEST_TIMED_OUT = 7
ILLEGAL_GENERATION = 22
REBALANCE_IN_PROGRESS = 27
COMMIT_TIMEOUT = 3.0
"""Seconds from the command on. If the thread's own requests delay a commit, it is answered right after them."""
SHORTEST_REST = 0.0002
LONGEST_REST = 0.002
RESTS_GROW = 1.25

Errors = dict[UpstreamPartition, int]


_OF_A_TOPIC = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART})
"""Errors that a coordinator returns for one topic, while it stores the other partitions."""


@dataclass(slots=True)
class _Commit:
    """A commit without an answer. errors: the known outcomes. parts: the partitions still to be sent, in separate
    requests. sent: the partitions of the request that librdkafka will answer."""

    positions: Mapping[UpstreamPartition, CommitPosition]
    answered: Callable[[Errors], None]
    deadline: float
    ours: Container[UpstreamPartition] | None
    parts: deque[list[UpstreamPartition]] | None = None
    is_answered: bool = False
    errors: Errors = field(default_factory=dict)
    sent: dict[tuple[str, int, int], UpstreamPartition] = field(default_factory=dict)


class CommitQueue:
    """The queue of commits of one consumer. Everything runs on the consumer's thread; librdkafka calls `on_commit`
    inside a poll.

    librdkafka reports one error for all partitions of a commit, whichever the coordinator has not stored (2.16). So
    after an error of a single topic, each topic is committed alone, and refused topics stay apart from the others.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Commit] = deque()
        self._in_flight: _Commit | None = None
        self._rest = SHORTEST_REST
        self._refused: set[TopicName] = set()

    @property
    def in_flight(self) -> bool:
        return self._in_flight is not None

    def rest(self) -> float:
        """Returns the seconds until librdkafka is polled again for the answer in flight: few at first, then more. A
        blocking poll would not end with the answer, and would delay the next commit."""
        rest, self._rest = self._rest, min(self._rest * RESTS_GROW, LONGEST_REST)
        return rest

    def offer(
        self,
        positions: Mapping[UpstreamPartition, CommitPosition],
        answered: Callable[[Errors], None],
        deadline: float = inf,
        ours: Container[UpstreamPartition] | None = None,
    ) -> None:
        """Adds a commit. ours: the partitions that may be committed when it is sent; None for those given to `send`."""
        self._waiting.append(_Commit(positions, answered, deadline, ours))

    def expire(self, now: float) -> bool:
        """Answers commits past their deadline, and returns whether there was one. They may still be stored."""
        waiting = deque(commit for commit in self._waiting if commit.deadline > now)
        late = [commit for commit in self._waiting if commit.deadline <= now]
        self._waiting = waiting
        if (flying := self._in_flight) is not None and not flying.is_answered and flying.deadline <= now:
            late.insert(0, flying)
        for commit in late:
            self._answer(commit, dict.fromkeys(commit.positions.keys() - commit.errors.keys(), REQUEST_TIMED_OUT))
        return bool(late)

    def send(self, consumer: Consumer | None, ours: Container[UpstreamPartition]) -> None:
        """Sends the next commit unless one is in flight, without partitions that are no longer ours."""
        while self._waiting and self._in_flight is None:
            commit = self._waiting.popleft()
            if commit.parts is None:
                commit.parts = self._parts(commit.positions)
            part = commit.parts.popleft() if commit.parts else []
            offers = self._offers(commit, part, ours if commit.ours is None else commit.ours)
            if not offers or consumer is None:
                commit.errors.update(dict.fromkeys(commit.sent.values(), REBALANCE_IN_PROGRESS))
                self._go_on(commit)
                continue
            self._in_flight, self._rest = commit, SHORTEST_REST
            try:
                consumer.commit(offsets=offers, asynchronous=True)
            except KafkaException as problem:
                self._end(commit, dict.fromkeys(commit.sent.values(), problem.args[0].code()))

    def on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        commit = self._in_flight
        answers = {(each.topic, each.partition, each.offset): each.error for each in partitions}
        if commit is None or answers.keys() != commit.sent.keys():
            return  # this answers a synchronous commit
        errors: Errors = {}
        for key, source in commit.sent.items():
            problem = answers[key] or error
            code = 0 if problem is None else problem.code()
            # The group is in another generation. Its answer does not say which partitions are still ours.
            errors[source] = REBALANCE_IN_PROGRESS if code == ILLEGAL_GENERATION else code
        topics = {source.topic for source in errors}
        refused = {source.topic for source, code in errors.items() if code in _OF_A_TOPIC}
        if len(topics) > 1 and refused and commit.parts is not None:
            commit.parts.extendleft(_by_topic(errors))
            errors = {}
        else:
            self._refused = (self._refused - topics) | refused
        self._end(commit, errors)

    def abandon(self) -> None:
        """Answers all commits with an error: the consumer is gone, and with it the answer in flight. A repeated commit
        goes to the next consumer."""
        waiting, self._waiting = self._waiting, deque()
        if self._in_flight is not None:
            waiting.appendleft(self._in_flight)
            self._in_flight = None
        for commit in waiting:
            self._answer(commit, dict.fromkeys(commit.positions.keys() - commit.errors.keys(), REBALANCE_IN_PROGRESS))

    def _parts(self, positions: Iterable[UpstreamPartition]) -> deque[list[UpstreamPartition]]:
        together = [source for source in positions if source.topic not in self._refused]
        apart = _by_topic(source for source in positions if source.topic in self._refused)
        return deque([together, *apart] if together else apart)

    def _offers(
        self, commit: _Commit, part: Iterable[UpstreamPartition], ours: Container[UpstreamPartition]
    ) -> list[TopicPartition]:
        commit.sent = {}
        offers: list[TopicPartition] = []
        for source in part:
            if source not in ours:
                commit.errors[source] = REBALANCE_IN_PROGRESS
                continue
            position = commit.positions[source]
            place = (source.topic, source.partition, position.offset)
            commit.sent[place] = source
            offers.append(TopicPartition(*place, position.metadata, position.leader_epoch))
        return offers

    def _end(self, commit: _Commit, errors: Errors) -> None:
        self._in_flight = None
        commit.errors.update(errors)
        self._go_on(commit)

    def _go_on(self, commit: _Commit) -> None:
        """Continues with the next part. Partitions that were not ours, or could not be sent, have their outcome by
        now."""
        if commit.parts and not commit.is_answered:
            self._waiting.appendleft(commit)
        else:
            self._answer(commit, {})

    def _answer(self, commit: _Commit, errors: Errors) -> None:
        if not commit.is_answered:
            commit.is_answered = True
            commit.answered({**commit.errors, **errors})


def _by_topic(sources: Iterable[UpstreamPartition]) -> list[list[UpstreamPartition]]:
    found: dict[TopicName, list[UpstreamPartition]] = {}
    for source in sources:
        found.setdefault(source.topic, []).append(source)
    return list(found.values())
