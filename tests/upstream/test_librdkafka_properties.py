"""The precedence of properties: ours, then the user's, then the defaults."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from mesh.records.spans import ClusterName
from mesh.upstream.engine import EngineOptions
from mesh.upstream.librdkafka_properties import connection_properties, consumer_properties, reader_properties

SECRET = {
    "sasl.password": "secret",
    "client.id": "mesh",
    "group.instance.id": "theirs",
    "session.timeout.ms": "20000",
    "socket.timeout.ms": "5000",
    "enable.auto.commit": "true",
    "group.id": "theirs",
}


def options(
    properties: Mapping[str, str],
    instance_id: str | None = None,
    buffer_bytes: int = 1 << 20,
    session_timeout_ms: int | None = None,
) -> EngineOptions:
    return EngineOptions(
        ClusterName("eu"),
        "host:1",
        properties,
        "group",
        instance_id,
        "earliest",
        "read_committed",
        buffer_bytes,
        session_timeout_ms,
    )


def test_secrets_are_in_no_text_of_the_options() -> None:
    assert "secret" not in repr(options(SECRET))


def test_ours_win_over_the_users_and_those_over_what_is_customary() -> None:
    made = consumer_properties(options(SECRET, "ours", 8 << 20))
    assert made["group.id"] == "group"
    assert made["group.instance.id"] == "ours"
    assert made["enable.auto.commit"] is False
    assert made["session.timeout.ms"] == 20_000
    assert made["socket.timeout.ms"] == "5000"
    assert made["client.id"] == "mesh"
    assert made["reconnect.backoff.max.ms"] == 1_000
    assert made["queued.max.messages.kbytes"] == 8 << 10


def test_sessions() -> None:
    def session(instance_id: str | None, given: int | None) -> int:
        made = consumer_properties(options({}, instance_id, session_timeout_ms=given))
        return int(made["session.timeout.ms"])

    assert (session(None, None), session("static", None), session("static", 7_000)) == (10_000, 45_000, 7_000)


def test_librdkafka_takes_them_whatever_the_budget() -> None:
    for budget in (1, 64 << 10, 1 << 20, 1 << 30):
        made = consumer_properties(options({}, buffer_bytes=budget))
        Consumer(made).close()
    user = {"message.max.bytes": "10000000"}
    Consumer(consumer_properties(options(user, buffer_bytes=1))).close()
    Consumer(reader_properties(options({**user, "group.instance.id": "x"}))).close()


@pytest.mark.parametrize(("budget", "fetched"), [(1, 64 << 10), (4 << 20, 256 << 10), (1 << 30, 1 << 20)])
def test_one_partition_takes_a_small_part_of_the_budget(budget: int, fetched: int) -> None:
    made = consumer_properties(options({}, buffer_bytes=budget))
    assert made["max.partition.fetch.bytes"] == fetched


def test_a_reader_is_no_member() -> None:
    assert "group.instance.id" not in reader_properties(options(SECRET))


def test_a_client_that_consumes_nothing_gets_what_it_needs_to_be_let_in() -> None:
    user = {**SECRET, "enable.ssl.certificate.verification": "false", "fetch.min.bytes": "9"}
    made = connection_properties({**user, "bootstrap.servers": "host:1"})
    AdminClient(made)
    assert made["sasl.password"] == "secret"
    assert made["enable.ssl.certificate.verification"] == "false"
    assert not made.keys() & {"fetch.min.bytes", "group.id", "session.timeout.ms"}
