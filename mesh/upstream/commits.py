"""Commits on their way to the upstream group: one at a time, for librdkafka names none of them in its answers.

They are asynchronous. A synchronous commit keeps the thread until the coordinator answers, which is a network away and
may hang; librdkafka even keeps one for the length of a session while there is no coordinator. Who waits is told so at
the deadline; the next one is sent when librdkafka has answered all the same, or its answer would be mistaken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from math import inf

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mesh.records.spans import CommitPosition, UpstreamPartition

REQUEST_TIMED_OUT = 7
ILLEGAL_GENERATION = 22
REBALANCE_IN_PROGRESS = 27
SHORTEST_REST = 0.0002
LONGEST_REST = 0.002
RESTS_GROW = 1.25

Errors = dict[UpstreamPartition, int]


@dataclass(slots=True)
class _Commit:
    """errors: of what was not even sent. sent: what librdkafka will answer."""

    positions: Mapping[UpstreamPartition, CommitPosition]
    answered: Callable[[Errors], None]
    deadline: float
    is_answered: bool = False
    errors: Errors = field(default_factory=dict)
    sent: dict[tuple[str, int, int], UpstreamPartition] = field(default_factory=dict)


class Commits:
    """Everything runs on the consumer's thread; `on_commit` is called by librdkafka, inside of a poll."""

    def __init__(self) -> None:
        self._waiting: deque[_Commit] = deque()
        self._in_flight: _Commit | None = None
        self._rest = SHORTEST_REST

    @property
    def in_flight(self) -> bool:
        return self._in_flight is not None

    def rest(self) -> float:
        """Seconds until librdkafka is to be asked again for the answer to the one in flight: often at first, and less
        often when it takes long. A poll that waits would not end with the answer, and keep the next commit waiting."""
        rest, self._rest = self._rest, min(self._rest * RESTS_GROW, LONGEST_REST)
        return rest

    def offer(
        self,
        positions: Mapping[UpstreamPartition, CommitPosition],
        answered: Callable[[Errors], None],
        deadline: float = inf,
    ) -> None:
        self._waiting.append(_Commit(positions, answered, deadline))

    def expire(self, now: float) -> bool:
        """Answer those whose deadline is over; whether there was one. They may be stored all the same."""
        waiting = deque(commit for commit in self._waiting if commit.deadline > now)
        late = [commit for commit in self._waiting if commit.deadline <= now]
        self._waiting = waiting
        if (flying := self._in_flight) is not None and not flying.is_answered and flying.deadline <= now:
            late.insert(0, flying)
        for commit in late:
            self._answer(commit, dict.fromkeys(commit.positions.keys() - commit.errors.keys(), REQUEST_TIMED_OUT))
        return bool(late)

    def send(self, consumer: Consumer | None, ours: Container[UpstreamPartition]) -> None:
        """Send the next one unless one is in flight. What is not ours any more is not sent."""
        while self._waiting and self._in_flight is None:
            commit = self._waiting.popleft()
            offers: list[TopicPartition] = []
            for source, position in commit.positions.items():
                if source in ours:
                    commit.sent[source.topic, source.partition, position.offset] = source
                    place = (source.topic, source.partition, position.offset)
                    offers.append(TopicPartition(*place, position.metadata, position.leader_epoch))
                else:
                    commit.errors[source] = REBALANCE_IN_PROGRESS
            if not offers or consumer is None:
                self._answer(commit, {})
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
            return  # the answer to a synchronous one
        errors: Errors = {}
        for key, source in commit.sent.items():
            problem = answers[key] or error
            code = 0 if problem is None else problem.code()
            # The group has gone on to another generation, and does not say what of it is still ours.
            errors[source] = REBALANCE_IN_PROGRESS if code == ILLEGAL_GENERATION else code
        self._end(commit, errors)

    def abandon(self) -> None:
        """The consumer is gone, and with it the answer; whoever asks again asks the next consumer."""
        if self._in_flight is not None:
            self._end(self._in_flight, dict.fromkeys(self._in_flight.sent.values(), REBALANCE_IN_PROGRESS))

    def _end(self, commit: _Commit, errors: Errors) -> None:
        self._in_flight = None
        self._answer(commit, errors)

    def _answer(self, commit: _Commit, errors: Errors) -> None:
        if not commit.is_answered:
            commit.is_answered = True
            commit.answered({**commit.errors, **errors})
