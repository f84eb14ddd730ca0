"""The exact cause among many complaints, and what kind of problem it is."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from mesh.upstream.problems import ProblemCause, UpstreamProblem, problem_of


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (KafkaError._ALL_BROKERS_DOWN, UpstreamProblem.UNREACHABLE),
        (KafkaError._RESOLVE, UpstreamProblem.ADDRESS),
        (KafkaError._AUTHENTICATION, UpstreamProblem.CREDENTIALS),
        (KafkaError._SSL, UpstreamProblem.ENCRYPTION),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, UpstreamProblem.NOT_AUTHORIZED),
        (KafkaError.FENCED_INSTANCE_ID, UpstreamProblem.FENCED),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, None),
    ],
)
def test_kinds(code: int, problem: UpstreamProblem | None) -> None:
    assert problem_of(KafkaError(code)) is problem


def test_fenced_in_words_only() -> None:
    text = "Fatal error: Broker: Static consumer fenced by other consumer with same group.instance.id: Fatal consumer"
    assert problem_of(KafkaError(KafkaError._FATAL, text)) is UpstreamProblem.FENCED
    assert problem_of(KafkaError(KafkaError._FATAL, "something else")) is None


def cause_of(*complaints: tuple[UpstreamProblem, str]) -> tuple[UpstreamProblem, str]:
    cause = ProblemCause()
    assert not cause
    for problem, reason in complaints:
        cause.add(problem, reason)
    assert cause
    return cause.problem, cause.reason


REFUSED = (UpstreamProblem.UNREACHABLE, "Connect to ipv4#127.0.0.1:1 failed: Connection refused")
VAGUE = (UpstreamProblem.UNREACHABLE, "Failed to get metadata: Local: Broker transport failure")
CERTIFICATE = (UpstreamProblem.ENCRYPTION, "certificate verify failed")


def test_an_exact_cause_goes_before_a_vague_one_in_any_order() -> None:
    assert cause_of(VAGUE) == VAGUE
    assert cause_of(VAGUE, REFUSED) == cause_of(REFUSED, VAGUE) == REFUSED
    assert cause_of(REFUSED, CERTIFICATE, VAGUE) == cause_of(CERTIFICATE, REFUSED) == CERTIFICATE


def test_the_number_of_brokers_that_are_down_is_vague() -> None:
    cause = ProblemCause()
    cause.add(*REFUSED)
    cause.add(UpstreamProblem.UNREACHABLE, "1/1 brokers are down", KafkaError._ALL_BROKERS_DOWN)
    assert cause.reason == REFUSED[1]
    cause.clear()
    assert not cause


def test_a_certificate_that_is_refused_after_the_handshake() -> None:
    """As librdkafka reports the alert of a broker of Kafka 4.3 with TLS 1.3."""
    alert = "Receive failed: error:0A000416:SSL routines::ssl/tls alert certificate unknown: SSL alert number 46"
    assert problem_of(KafkaError(KafkaError._TRANSPORT, alert)) is UpstreamProblem.ENCRYPTION
    assert problem_of(KafkaError(KafkaError._TRANSPORT, "Connect failed")) is UpstreamProblem.UNREACHABLE
