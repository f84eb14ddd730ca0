"""The password of the mesh at a cluster changes, by a file and a reload, while everything is in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.integration.feeding import log_ends
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import KAFKA_MESH, MeshProcess
from tests.integration.processes import completed, eventually, free_port
from tests.integration.security.ways_in import (
    JOURNAL,
    STORE,
    TOPICS,
    Traffic,
    configuration,
    has_more,
    problems,
    stuck_members,
)

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(600)]
USER, OLD, NEW = "mesh", "sesame-1", "sesame-2"


@dataclass(frozen=True, slots=True)
class GuardedByScram:
    """A broker whose listener at `port` takes only clients that log in by SCRAM."""

    cluster: KafkaCluster
    port: int

    def set_password(self, password: str) -> None:
        change = ["--alter", "--entity-type", "users", "--entity-name", USER]
        credential = ["--add-config", f"SCRAM-SHA-256=[password={password}]"]
        servers = ["--bootstrap-server", self.cluster.bootstrap_servers]
        self.cluster.run_tool("kafka.admin.ConfigCommand", *servers, *change, *credential)


@pytest.fixture
def scram(tmp_path: Path) -> Iterator[GuardedByScram]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    port = free_port()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    more = {
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},SASL://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},SASL://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": module,
    }
    cluster = KafkaCluster("eu", kafka_jars(), tmp_path / "broker", more)
    try:
        yield GuardedByScram(cluster, port)
    finally:
        cluster.kill()


def has_stored(cluster: KafkaCluster, address: str, value: str) -> None:
    """Lets a pool store the configuration of a group, which is in the store when it has answered."""
    before = sum(log_ends(cluster, STORE).values())
    change = ["--alter", "--entity-type", "groups", "--entity-name", "shared"]
    configs = ["--add-config", f"share.auto.offset.reset={value}"]
    cluster.run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", address, *change, *configs)
    assert sum(log_ends(cluster, STORE).values()) > before


def test_nothing_stands_while_the_password_changes(scram: GuardedByScram, tmp_path: Path) -> None:
    """Neither a pool of each engine, nor a relay, a union, dead letters, the journal or the store. No group leaves the
    cluster, and no record comes twice."""
    scram.set_password(OLD)
    for topic in TOPICS.values():
        scram.cluster.create_topic(topic, 2)
    password = tmp_path / "password"
    password.write_text(f"{OLD}\n")
    sasl = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": USER}
    properties = {**sasl, "sasl.password": f"${{file:{password}}}"}
    whole, listen = configuration({"bootstrap_servers": f"127.0.0.1:{scram.port}", "properties": properties})
    mesh = MeshProcess(tmp_path, "passwords", whole)
    ways = {"relay": (listen["relay"], TOPICS["raw"]), "union": (listen["union"], TOPICS["librdkafka"])}
    traffic = Traffic(ways, {name: (listen[name], topic) for name, topic in TOPICS.items()})
    try:
        with stuck_members(scram.cluster, mesh, listen) as stuck:
            traffic.begin()
            eventually("records come", lambda: all(traffic.read.values()), timeout=60)
            stuck.bury()
            has_stored(scram.cluster, listen["raw"], "latest")
            password.write_text(f"{NEW}\n")
            scram.set_password(NEW)
            done = completed([KAFKA_MESH, "reload", mesh.file])
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines()[1:] == [f"  cluster {name}: changed (properties)" for name in TOPICS]
            assert [each for each in mesh.log_entries() if each["event"] == "upstream cluster left"] == []
            scram.cluster.stop()  # no connection from before is left
            scram.cluster.restart()
            at = {way: len(sent) for way, sent in traffic.sent.items()}
            pages = sum(log_ends(scram.cluster, JOURNAL).values())
            for way in traffic.ways:
                eventually(f"{way} goes on", partial(has_more, traffic, way, at[way]), timeout=60)
            stuck.bury()
            has_stored(scram.cluster, listen["raw"], "earliest")
            eventually("the journal goes on", lambda: sum(log_ends(scram.cluster, JOURNAL).values()) > pages)
            for pool, way in (("raw", "relay"), ("librdkafka", "union")):
                value = traffic.sent[way][-1]
                eventually(f"{pool} reads on", lambda pool=pool, value=value: value in traffic.read[pool])  # type: ignore[misc]
            traffic.end()
        for pool, way in (("raw", "relay"), ("librdkafka", "union")):
            assert not set(traffic.sent[way][:-2]) - traffic.read[pool].keys()
        assert [value for read in traffic.read.values() for value, count in read.items() if count > 1] == []
        eventually("no problem is left", lambda: problems(mesh) == [])
        assert NEW not in str(mesh.log_entries())
    finally:
        traffic.end()
        mesh.kill()
