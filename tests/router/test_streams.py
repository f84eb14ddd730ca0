"""Kafka Streams through a union: an application with all topics at the home of its group works; one with a topic of
another cluster ends at its start with an error that says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.clients.building import streams_classes
from tests.clients.producing import Feed
from tests.integration.feeding import stored_upstream
from tests.integration.jars import STREAMS, kafka_jars, missing_programs
from tests.integration.java import java
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import ChildProcess, eventually
from tests.relay.matrix import produced
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT = 50
PROTOCOLS = ("classic", "streams")
SAID = {"classic": "invalid topic", "streams": "all topics of a topology are in one"}
Clusters = tuple[KafkaCluster, KafkaCluster]


@contextmanager
def application(union: UnionMesh, protocol: str, name: str, sources: str, folder: Path) -> Iterator[ChildProcess]:
    """An application that counts the records of some topics, into the topic of its own name with `-counts`."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    arguments = (union.bootstrap_servers, name, protocol, sources, f"{name}-counts", str(folder / "state"))
    command = java(kafka_jars(STREAMS), "Counts", *arguments, classes=streams_classes(), options=[quiet])
    process = ChildProcess(command, log=folder / "application.log")
    try:
        yield process
    finally:
        process.kill()


def made_topics(kafka_pair: Clusters, name: str) -> None:
    for cluster in kafka_pair:
        cluster.create_topic(name, 1)
    kafka_pair[0].create_topic(f"{name}-counts", 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_all_topics_at_home(kafka_pair: Clusters, union: UnionMesh, protocol: str, tmp_path: Path) -> None:
    eu, name = kafka_pair[0], f"at-home-{protocol}"
    made_topics(kafka_pair, name)
    feed = Feed(bootstrap_servers=eu.bootstrap_servers, client_id="feed", topic=name, count=COUNT)
    produced(Client.CONFLUENT, feed, tmp_path)
    with application(union, protocol, name, name, tmp_path) as process:

        def is_counted() -> bool:
            assert process.exit_code is None, process.log_tail()
            return len(list(stored_upstream(eu, f"{name}-counts"))) == COUNT

        eventually("all is counted", is_counted, timeout=90)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_topic_of_another_cluster(kafka_pair: Clusters, union: UnionMesh, protocol: str, tmp_path: Path) -> None:
    name = f"elsewhere-{protocol}"
    made_topics(kafka_pair, name)
    with application(union, protocol, name, f"{name},us.{name}", tmp_path) as process:
        assert process.wait(90) == 1
        assert SAID[protocol] in (tmp_path / "application.log").read_text()
    if protocol == "classic":  # its error field has no room for more
        assert f"us.{name}" in {each.get("topic") for each in union.log_entries()}
