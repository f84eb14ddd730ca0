"""Whether an upstream cluster can be used, told once each time that changes.

librdkafka complains about much that heals by itself at once, such as one connection that was closed. So a complaint
only raises a suspicion; a request that fails confirms it, one that succeeds ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mesh.records.spans import ClusterName, TopicName
from mesh.upstream.engine import EngineEvent, SourceDown, SourceUp
from mesh.upstream.properties import COOPERATIVE, EAGER, Properties, connection_properties

log = structlog.get_logger(__name__)

PROBE_TIMEOUT = 0.5
PROBE_INTERVAL = 1.0
DESCRIBE_TIMEOUT = 5.0

UNREACHABLE = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._AUTHENTICATION,
        KafkaError._RESOLVE,
        KafkaError._SSL,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
    }
)
REFUSED = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._FATAL,
    }
)


class Reachability:
    """Everything runs on the consumer's thread. is_fatal: librdkafka has given up, only another consumer helps."""

    def __init__(self, cluster: ClusterName, properties: Properties, put: Callable[[EngineEvent], None]) -> None:
        self._cluster = cluster
        self._properties = properties
        self._put = put
        self.is_fatal = False
        self._suspicion: str | None = None
        self._down = False
        self._probe_at = 0.0
        self._assignor: str | None = None
        self._describe = False

    @property
    def is_suspected(self) -> bool:
        """Whether the next probe is to find out if it works."""
        return self._suspicion is not None

    def suspect(self, error: KafkaError) -> None:
        """librdkafka complains."""
        self.is_fatal = self.is_fatal or error.fatal()
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            self._describe = True
        elif error.code() in REFUSED:
            self.refuse(error.str())
        elif error.code() in UNREACHABLE:
            self._suspicion = error.str()
        else:
            log.warning("an upstream cluster complains", cluster=self._cluster, reason=error.str())

    def unanswered(self, error: KafkaError) -> None:
        """A request of ours failed; what is wrong with it alone is told by others."""
        if error.code() in UNREACHABLE:
            self.complain(error.str())

    def complain(self, reason: str) -> None:
        """Something of ours does not work."""
        self._suspicion = self._suspicion or reason

    def refuse(self, reason: str) -> None:
        """It does not work, for a reason that needs no confirmation."""
        if not self._down:
            self._down = True
            self._put(SourceDown(reason))

    def reached(self) -> None:
        """It works."""
        self._suspicion = None
        if self._down:
            self._down = False
            self._put(SourceUp())

    def probe(self, consumer: Consumer, topics: Collection[TopicName], now: float) -> None:
        """Find out about a suspicion, at most once a second."""
        if now < self._probe_at:
            return
        if self._describe:
            self._probe_at = now + PROBE_INTERVAL
            self._describe = False
            self._assignor = self._assignor_in_use()
        elif self._suspicion is not None:
            self._probe_at = now + PROBE_INTERVAL
            try:
                consumer.list_topics(min(topics), timeout=PROBE_TIMEOUT)
            except KafkaException:
                self.refuse(self._suspicion)
            else:
                self.reached()

    def wants(self, cooperative: bool) -> bool:
        """Whether the group has refused us and uses assignors of that family; told once."""
        assignor, self._assignor = self._assignor, None
        if not assignor:
            return False
        if assignor in (COOPERATIVE if cooperative else EAGER).split(","):
            return True
        group = self._properties["group.id"]
        self.refuse(
            f"the members of group {group} use the assignor {assignor!r}; the mesh can join {EAGER} or {COOPERATIVE}"
        )
        return False

    def _assignor_in_use(self) -> str | None:
        group = str(self._properties["group.id"])
        admin = AdminClient(connection_properties(self._properties))  # must outlive its future
        try:
            answer = admin.describe_consumer_groups([group], request_timeout=DESCRIBE_TIMEOUT)[group]
            return str(answer.result(DESCRIBE_TIMEOUT + 1).partition_assignor)
        except (KafkaException, TimeoutError):
            return None
