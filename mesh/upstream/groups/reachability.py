"""Watches whether an upstream cluster can be used, and reports each change once.

librdkafka reports many errors that go away at once, such as a closed connection. So such an error only raises a
suspicion; a failed request confirms it, and a successful one ends it.

Three states are reported apart: whether the cluster answers, without which nothing is stored; whether the group accepts
this member; and whether all topics may be read, while the group stores commits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException

from mesh.records.spans import ClusterName, TopicName
from mesh.upstream.engine import EngineEvent, GroupDown, GroupUp, ReadingDown, ReadingUp, SourceDown, SourceUp
from mesh.upstream.groups.descriptions import DescriptionUnavailable
from mesh.upstream.librdkafka_properties import COOPERATIVE, EAGER, Properties
from mesh.upstream.problems import CONNECTION, OF_TOPICS, ProblemCause, UpstreamProblem, problem_of
from mesh.wire.client.groups import GroupDescription

log = structlog.get_logger(__name__)

PROBE_TIMEOUT = 0.5
PROBE_INTERVAL = 1.0

QUIET = 300.0
"""Seconds for which a repeated error is not logged."""
MOST_REMEMBERED = 100


class Reachability:
    """The reachability of a cluster for one consumer and its group; everything runs on the consumer's thread. is_fatal:
    librdkafka has given up, and only a new consumer helps. describe: describes the group; the future fails with
    DescriptionUnavailable."""

    def __init__(
        self,
        cluster: ClusterName,
        properties: Properties,
        put: Callable[[EngineEvent], None],
        describe: Callable[[], Future[GroupDescription]],
    ) -> None:
        self._cluster = cluster
        self._properties = properties
        self._put = put
        self.is_fatal = False
        self._suspicion = ProblemCause()
        self._down: UpstreamProblem | None = None
        self._group_down: UpstreamProblem | None = None
        self._reported: dict[str, float] = {}
        self._refused: set[TopicName] = set()
        """Topics that the group may not read."""
        self._probe_at = 0.0
        self._assignor: str | None = None
        self._describe = describe
        self._is_assignor_wanted = False
        self._described: Future[GroupDescription] | None = None

    @property
    def is_suspected(self) -> bool:
        """Returns whether the next probe must find out if the cluster works."""
        return bool(self._suspicion)

    @property
    def is_fenced(self) -> bool:
        """Returns whether another member with our instance id has taken our place in the group."""
        return self._group_down is UpstreamProblem.FENCED

    def suspect(self, error: KafkaError, topic: TopicName | None = None) -> None:
        """Notes an error that librdkafka reports, for a topic or in general."""
        is_fatal = error.fatal() or error.code() == KafkaError._FATAL
        self.is_fatal = self.is_fatal or is_fatal
        problem = problem_of(error)
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            self._is_assignor_wanted = True
        elif problem in CONNECTION:
            self._suspicion.add(problem, error.str(), error.code())
        elif problem is UpstreamProblem.FENCED:
            group, instance = self._properties["group.id"], self._properties.get("group.instance.id")
            self._group_refuses(f"in group {group} another member took over the group.instance.id {instance}", problem)
        elif problem is not None and error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._group_refuses(error.str(), problem)
        elif problem is not None and topic is not None:
            self._refuse_topic(topic, error.str())
        elif is_fatal:
            self.report_down(error.str(), UpstreamProblem.UNREACHABLE)
        elif error.code() not in OF_TOPICS:
            self._warn(error.str(), time.monotonic())

    def unanswered(self, error: KafkaError) -> None:
        """Notes that a request of ours failed without an answer. Other code reports errors in answers."""
        if (problem := problem_of(error)) in CONNECTION:
            self._suspicion.add(problem, error.str(), error.code())

    def complain(self, reason: str) -> None:
        """Notes that a request or connection of ours does not work, unless a suspicion exists already."""
        if not self._suspicion:
            self._suspicion.add(UpstreamProblem.UNREACHABLE, reason)

    def report_down(self, reason: str, problem: UpstreamProblem) -> None:
        """Notes that the cluster cannot be used, for a reason that needs no probe."""
        if self._down is None or (self._down is not problem and problem is not UpstreamProblem.UNREACHABLE):
            self._down = problem
            self._put(SourceDown(reason, problem))

    def answered(self) -> None:
        """Notes that the cluster answers; it may still refuse what we want."""
        self._suspicion.clear()
        if self._down is not None:
            self._down = None
            self._put(SourceUp())

    def assigned(self, topics: Collection[TopicName]) -> None:
        """Notes that the group works, and that its assignment has partitions of these topics. Refused topics without a
        partition of ours are forgotten: nothing else would show that they are readable again."""
        self.answered()
        self._group_accepts()
        self._keep_refused(self._refused.intersection(topics))

    def stored(self) -> None:
        """Notes that the group stored a commit."""
        if self._group_down is UpstreamProblem.NOT_AUTHORIZED:
            self._group_accepts()

    def records_arrived(self, topic: TopicName) -> None:
        """Notes that records of this topic arrived."""
        if topic in self._refused:
            self._keep_refused(self._refused - {topic})

    def probe(self, consumer: Consumer, topics: Collection[TopicName], now: float) -> None:
        """Checks a suspicion with a request, at most once a second."""
        if self._described is not None:
            self._look_for_assignor(self._described)
        if now < self._probe_at:
            return
        if self._is_assignor_wanted:
            self._probe_at = now + PROBE_INTERVAL
            self._described = self._described or self._describe()
        elif self._suspicion:
            self._probe_at = now + PROBE_INTERVAL
            try:
                consumer.list_topics(min(topics), timeout=PROBE_TIMEOUT)
            except KafkaException:
                self.report_down(self._suspicion.reason, self._suspicion.problem)
            else:
                self.answered()

    def check_assignor_switch(self, cooperative: bool) -> bool:
        """Returns whether the group has refused this member and uses assignors of that family; True once for each
        refusal."""
        assignor, self._assignor = self._assignor, None
        if not assignor:
            return False
        if assignor in (COOPERATIVE if cooperative else EAGER).split(","):
            return True
        group = self._properties["group.id"]
        self._group_refuses(
            f"the members of group {group} use the assignor {assignor!r}; the mesh can join {EAGER} or {COOPERATIVE}",
            UpstreamProblem.ASSIGNOR,
        )
        return False

    def _group_refuses(self, reason: str, problem: UpstreamProblem) -> None:
        if self._group_down is not problem:
            self._group_down = problem
            self._put(GroupDown(reason, problem))

    def _group_accepts(self) -> None:
        if self._group_down is not None:
            self._group_down = None
            self._put(GroupUp())

    def _refuse_topic(self, topic: TopicName, reason: str) -> None:
        if not self._refused:
            self._put(ReadingDown(f"{topic}: {reason}", UpstreamProblem.NOT_AUTHORIZED))
        self._refused.add(topic)

    def _keep_refused(self, topics: set[TopicName]) -> None:
        if self._refused and not topics:
            self._put(ReadingUp())
        self._refused = topics

    def _warn(self, reason: str, now: float) -> None:
        """Logs a warning for a new reason, at a bounded rate."""
        if now - self._reported.get(reason, -QUIET) < QUIET:
            return
        self._reported.pop(reason, None)
        self._reported[reason] = now
        if len(self._reported) > MOST_REMEMBERED:
            del self._reported[next(iter(self._reported))]
        log.warning("upstream cluster error", cluster=self._cluster, reason=reason)

    def _look_for_assignor(self, described: Future[GroupDescription]) -> None:
        if not described.done():
            return
        self._described, self._is_assignor_wanted = None, False
        try:
            self._assignor = described.result().assignor
        except DescriptionUnavailable:
            return  # asked again when librdkafka reports the next error
