"""Whether an upstream cluster can be used, told once each time that changes.

librdkafka complains about much that heals by itself at once, such as one connection that was closed. So a complaint
only raises a suspicion; a request that fails confirms it, one that succeeds ends it.

Three things are told apart: the cluster, without which nothing is stored; our group there, which may refuse us; and
topics that may not be read, while the group stores what it is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException

from mesh.records.spans import ClusterName, TopicName
from mesh.upstream.engine import EngineEvent, GroupDown, GroupUp, ReadingDown, ReadingUp, SourceDown, SourceUp
from mesh.upstream.groups.descriptions import Undescribed
from mesh.upstream.librdkafka_properties import COOPERATIVE, EAGER, Properties
from mesh.upstream.problems import CONNECTION, OF_TOPICS, ProblemCause, UpstreamProblem, problem_of
from mesh.wire.client.groups import GroupDescription

log = structlog.get_logger(__name__)

PROBE_TIMEOUT = 0.5
PROBE_INTERVAL = 1.0

QUIET = 300.0
"""Seconds for which the same complaint is not told again."""
MOST_REMEMBERED = 100


class Reachability:
    """Everything runs on the consumer's thread. is_fatal: librdkafka has given up, only another consumer helps.
    describe: who is in the group; its answer fails with Undescribed."""

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
        self._told: dict[str, float] = {}
        self._refused: set[TopicName] = set()
        """Topics that may not be read."""
        self._probe_at = 0.0
        self._assignor: str | None = None
        self._describe = describe
        self._is_assignor_wanted = False
        self._described: Future[GroupDescription] | None = None

    @property
    def is_suspected(self) -> bool:
        """Whether the next probe is to find out if it works."""
        return bool(self._suspicion)

    @property
    def is_fenced(self) -> bool:
        """Whether another member with our instance id has taken our place in the group."""
        return self._group_down is UpstreamProblem.FENCED

    def suspect(self, error: KafkaError, topic: TopicName | None = None) -> None:
        """librdkafka complains, of a topic or of something else."""
        is_fatal = error.fatal() or error.code() == KafkaError._FATAL
        self.is_fatal = self.is_fatal or is_fatal
        problem = problem_of(error)
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            self._is_assignor_wanted = True
        elif problem in CONNECTION:
            self._suspicion.add(problem, error.str(), error.code())
        elif problem is UpstreamProblem.FENCED:
            group, instance = self._properties["group.id"], self._properties.get("group.instance.id")
            self._refuse_us(f"in group {group} another member took over the group.instance.id {instance}", problem)
        elif problem is not None and error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._refuse_us(error.str(), problem)
        elif problem is not None and topic is not None:
            self._refuse_topic(topic, error.str())
        elif is_fatal:
            self.refuse(error.str(), UpstreamProblem.UNREACHABLE)
        elif error.code() not in OF_TOPICS:
            self._warn(error.str(), time.monotonic())

    def unanswered(self, error: KafkaError) -> None:
        """A request of ours failed; what is wrong with it alone is told by others."""
        if (problem := problem_of(error)) in CONNECTION:
            self._suspicion.add(problem, error.str(), error.code())

    def complain(self, reason: str) -> None:
        """Something of ours does not work."""
        if not self._suspicion:
            self._suspicion.add(UpstreamProblem.UNREACHABLE, reason)

    def refuse(self, reason: str, problem: UpstreamProblem) -> None:
        """The cluster cannot be used, for a reason that needs no confirmation."""
        if self._down is None or (self._down is not problem and problem is not UpstreamProblem.UNREACHABLE):
            self._down = problem
            self._put(SourceDown(reason, problem))

    def answered(self) -> None:
        """The cluster answers; whether it lets us do what we want is another question."""
        self._suspicion.clear()
        if self._down is not None:
            self._down = None
            self._put(SourceUp())

    def assigned(self, topics: Collection[TopicName]) -> None:
        """The group works, and these are read, or may not be. Of topics of which nothing is ours any more nothing else
        would tell that they may be read."""
        self.answered()
        self._take_us()
        self._keep_refused(self._refused.intersection(topics))

    def stored(self) -> None:
        """The group stored a commit."""
        if self._group_down is UpstreamProblem.NOT_AUTHORIZED:
            self._take_us()

    def allows(self, topic: TopicName) -> None:
        """Records of this topic came."""
        if topic in self._refused:
            self._keep_refused(self._refused - {topic})

    def probe(self, consumer: Consumer, topics: Collection[TopicName], now: float) -> None:
        """Find out about a suspicion, at most once a second."""
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
                self.refuse(self._suspicion.reason, self._suspicion.problem)
            else:
                self.answered()

    def wants(self, cooperative: bool) -> bool:
        """Whether the group has refused us and uses assignors of that family; told once."""
        assignor, self._assignor = self._assignor, None
        if not assignor:
            return False
        if assignor in (COOPERATIVE if cooperative else EAGER).split(","):
            return True
        group = self._properties["group.id"]
        self._refuse_us(
            f"the members of group {group} use the assignor {assignor!r}; the mesh can join {EAGER} or {COOPERATIVE}",
            UpstreamProblem.ASSIGNOR,
        )
        return False

    def _refuse_us(self, reason: str, problem: UpstreamProblem) -> None:
        if self._group_down is not problem:
            self._group_down = problem
            self._put(GroupDown(reason, problem))

    def _take_us(self) -> None:
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
        """Of something else than what is known here; in numbers that are bounded."""
        if now - self._told.get(reason, -QUIET) < QUIET:
            return
        self._told.pop(reason, None)
        self._told[reason] = now
        if len(self._told) > MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        log.warning("an upstream cluster complains", cluster=self._cluster, reason=reason)

    def _look_for_assignor(self, described: Future[GroupDescription]) -> None:
        if not described.done():
            return
        self._described, self._is_assignor_wanted = None, False
        try:
            self._assignor = described.result().assignor
        except Undescribed:
            return  # it is asked again when librdkafka complains again
