"""Certificates that the mesh shows to a cluster, and that are replaced while it runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from cryptography.x509 import load_pem_x509_certificate

from tests.integration.feeding import log_ends
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.mesh_process import Mesh, MeshProcess
from tests.integration.processes import eventually
from tests.integration.relay_mesh import RelayMesh
from tests.integration.security import secured
from tests.integration.security.certificates import Pair
from tests.integration.security.guarded import Guarded
from tests.integration.security.secured import Login

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
TOPIC, LATER, JOURNAL = "renewed", "later", "journal"
LIFE = timedelta(seconds=45)


@pytest.fixture
def topics(guarded: Guarded) -> None:
    guarded.cluster.create_topic(TOPIC, 1)


def write(servers: str, value: str, topic: str = TOPIC) -> str:
    """Writes a record over new connections; returns the error, "" for success."""
    told: list[str] = []
    producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": servers, "message.timeout.ms": 20_000})
    producer.produce(topic, value, on_delivery=lambda error, _: told.append(error.name() if error else ""))
    producer.flush(40)
    return told[0]


def is_missing(mesh: MeshProcess, topic: str) -> bool:
    """Whether it is reported that no cluster has this topic."""
    return topic in [each.get("topic") for each in mesh.readiness()["degraded"]]


def written(cluster: KafkaCluster) -> int:
    """The number of pages in the journal."""
    return sum(log_ends(cluster, JOURNAL).values())


def problems(mesh: MeshProcess) -> list[tuple[str, str]]:
    """The problems with clusters that are reported, with their reasons."""
    return [(each["problem"], each["reason"]) for each in mesh.readiness()["degraded"] if "problem" in each]


def end_of(pair: Pair) -> datetime:
    return load_pem_x509_certificate(pair.certificate.read_bytes()).not_valid_after_utc


def has_ended(pair: Pair) -> bool:
    return end_of(pair) < datetime.now(UTC)


def ending(mesh: MeshProcess) -> list[str]:
    """The clusters for which a certificate is reported that ends soon."""
    return [each["cluster"] for each in mesh.readiness()["degraded"] if each["what"] == "certificate ends soon"]


@pytest.mark.usefixtures("topics")
def test_new_connections_are_served_after_the_first_certificate_ended(guarded: Guarded, tmp_path: Path) -> None:
    """Through a relay, by new groups of a pool, and by the journal. The broker restarts in between."""
    authority = guarded.authority
    pair = authority.issue("mesh", life=LIFE)
    first = Pair(tmp_path / "first.crt", tmp_path / "first.key")
    for file, copy in ((pair.certificate, first.certificate), (pair.key, first.key)):
        copy.write_bytes(file.read_bytes())
    meshes: list[MeshProcess] = []
    try:
        relay = RelayMesh(tmp_path, f"localhost:{guarded.port}", upstream=guarded.upstream(pair))
        meshes.append(relay)
        journal = {"cluster": "eu", "topic": JOURNAL, "create": True}
        process = {"process_id": "mesh-1", "journal": journal, "metadata_refresh": "1s"}
        upstream = {"eu": guarded.upstream(pair)}
        pool = Mesh([guarded.cluster], [TOPIC, LATER], tmp_path, {}, upstream=upstream, process=process)
        meshes.append(pool)
        assert write(relay.bootstrap_servers, "before") == ""
        assert secured.confluent(pool.bootstrap_servers, TOPIC, "before", 1, Login()) == ["before"]
        assert guarded.takes(first)
        eventually("the first page of the journal", lambda: written(guarded.cluster) > 0, timeout=60)
        assert [ending(mesh) for mesh in meshes] == [["eu"], ["eu"]]
        authority.issue("mesh")  # in the same files
        eventually("the first certificate ends", lambda: has_ended(first), timeout=2 * LIFE.total_seconds())
        assert not guarded.takes(first)
        guarded.cluster.stop()
        guarded.cluster.restart()
        assert write(relay.bootstrap_servers, "after") == ""
        pages = written(guarded.cluster)
        values = secured.confluent(pool.bootstrap_servers, TOPIC, "after", 2, Login())
        assert sorted(values) == ["after", "before"]
        assert is_missing(pool, LATER)
        guarded.cluster.create_topic(LATER, 1)
        eventually("the topic is found", lambda: not is_missing(pool, LATER), timeout=60)
        assert write(relay.bootstrap_servers, "later", LATER) == ""
        assert secured.confluent(pool.bootstrap_servers, LATER, "later", 1, Login()) == ["later"]
        eventually("the journal goes on", lambda: written(guarded.cluster) > pages, timeout=60)
        assert [ending(mesh) for mesh in meshes] == [[], []]
        for mesh in meshes:
            assert (
                mesh.metric("kafka_mesh_certificate_expiry_timestamp_seconds", cluster="eu") == end_of(pair).timestamp()
            )
            assert "file reloaded" in [entry["event"] for entry in mesh.log_entries()]
    finally:
        for mesh in meshes:
            mesh.kill()


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize("kind", ["relay", "pool"])
def test_a_cluster_that_refuses_an_ended_certificate_is_reported(guarded: Guarded, tmp_path: Path, kind: str) -> None:
    """Although connections from before the end are still served; and it is over when there is a new certificate."""
    pair = guarded.authority.issue("mesh", life=timedelta(seconds=20))
    mesh: MeshProcess
    if kind == "relay":
        mesh = RelayMesh(tmp_path, f"localhost:{guarded.port}", upstream=guarded.upstream(pair))
    else:
        mesh = Mesh([guarded.cluster], [TOPIC], tmp_path, {}, upstream={"eu": guarded.upstream(pair)})
    try:
        assert problems(mesh) == []
        eventually("the certificate ends", lambda: has_ended(pair), timeout=60)
        if isinstance(mesh, RelayMesh):
            assert write(mesh.bootstrap_servers, "late") != ""
        eventually("it is reported", lambda: problems(mesh) != [], timeout=120)
        ((problem, reason),) = problems(mesh)
        assert problem == "encryption"
        assert f"{pair.certificate} ended at" in reason
        assert mesh.metric("kafka_mesh_upstream_up", cluster="eu") == 0
        guarded.authority.issue("mesh")
        eventually("it is over", lambda: problems(mesh) == [], timeout=120)
        if isinstance(mesh, RelayMesh):
            assert write(mesh.bootstrap_servers, "later") == ""
    finally:
        mesh.kill()
