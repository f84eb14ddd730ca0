"""The kinds of problem with an upstream cluster, distinguished by the operator's remedy."""

from __future__ import annotations

from enum import Enum

from confluent_kafka import KafkaError


class UpstreamProblem(Enum):
    """A kind of problem; the values are labels of metrics, and appear in logs."""

    UNREACHABLE = "unreachable"
    ADDRESS = "address"
    CREDENTIALS = "credentials"
    ENCRYPTION = "encryption"
    PROPERTIES = "properties"
    NOT_AUTHORIZED = "not_authorized"
    FENCED = "fenced"
    ASSIGNOR = "assignor"
    TOPIC_MISSING = "topic_missing"
    COMMITS = "commits"
    UNREADABLE = "unreadable"
    ENGINE_FAILED = "engine_failed"
    NODE_WITHOUT_ADDRESS = "node_without_address"
    GROUP_ELSEWHERE = "group_elsewhere"
    TOPIC_WIDTH = "topic_width"


CONNECTION = frozenset(
    {
        UpstreamProblem.UNREACHABLE,
        UpstreamProblem.ADDRESS,
        UpstreamProblem.CREDENTIALS,
        UpstreamProblem.ENCRYPTION,
        UpstreamProblem.PROPERTIES,
    }
)
"""Problems that affect everything that uses the cluster."""
OF_TOPICS = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""Error codes that need no report here, since the catalog checks all topics and reports them."""

_BY_CODE = {
    KafkaError._ALL_BROKERS_DOWN: UpstreamProblem.UNREACHABLE,
    KafkaError._TRANSPORT: UpstreamProblem.UNREACHABLE,
    KafkaError._TIMED_OUT: UpstreamProblem.UNREACHABLE,
    KafkaError._RESOLVE: UpstreamProblem.ADDRESS,
    KafkaError._AUTHENTICATION: UpstreamProblem.CREDENTIALS,
    KafkaError.SASL_AUTHENTICATION_FAILED: UpstreamProblem.CREDENTIALS,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: UpstreamProblem.CREDENTIALS,
    KafkaError._SSL: UpstreamProblem.ENCRYPTION,
    KafkaError._INVALID_ARG: UpstreamProblem.PROPERTIES,
    KafkaError.GROUP_AUTHORIZATION_FAILED: UpstreamProblem.NOT_AUTHORIZED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: UpstreamProblem.NOT_AUTHORIZED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: UpstreamProblem.NOT_AUTHORIZED,
    KafkaError.FENCED_INSTANCE_ID: UpstreamProblem.FENCED,
}
_FENCED = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
_ALERT = "SSL alert number"
"""The part of librdkafka's texts about an alert. With TLS 1.3 a broker refuses a certificate after the handshake, and
librdkafka calls that a failure of the transport."""
_VAGUE = "Local: "
"""The beginning of librdkafka's texts that say no more than their codes."""


def problem_of(error: KafkaError) -> UpstreamProblem | None:
    """Returns the problem behind an error of librdkafka; None if the error does not keep a cluster from being used."""
    if error.code() == KafkaError._FATAL and _FENCED in error.str():
        return UpstreamProblem.FENCED  # librdkafka names the code of a fatal error only in its text
    if error.code() == KafkaError._TRANSPORT and _ALERT in error.str():
        return UpstreamProblem.ENCRYPTION
    return _BY_CODE.get(error.code())


def name_of(code: int) -> str:
    """Returns the name of an error code of Kafka, or of librdkafka."""
    return str(KafkaError(code).name())


class ProblemCause:
    """The cause of a problem with a cluster, chosen from several errors. librdkafka follows up each exact error
    ("certificate verify failed") with vague ones ("3/3 brokers are down")."""

    __slots__ = ("problem", "reason")

    def __init__(self) -> None:
        self.clear()

    def __bool__(self) -> bool:
        return bool(self.reason)

    def clear(self) -> None:
        self.problem = UpstreamProblem.UNREACHABLE
        self.reason = ""

    def add(self, problem: UpstreamProblem, reason: str, code: int | None = None) -> None:
        """Adds an error. An exact cause stays until `clear` or the next exact one."""
        is_vague = code in {KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT} or _VAGUE in reason
        is_better = self.problem is UpstreamProblem.UNREACHABLE and not is_vague
        if not self.reason or is_better or problem is not UpstreamProblem.UNREACHABLE:
            self.problem, self.reason = problem, reason
