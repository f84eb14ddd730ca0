"""A configuration that changes while members are connected: the parts concerned change, and all others continue."""

from __future__ import annotations

import copy
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.app.running import Member, MockCluster, RunningMesh, cluster_of, virtual_cluster
from tests.integration.processes import eventually, free_port
from tests.integration.security.certificates import Authority, Pair

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def eu(tmp_path: Path) -> Iterator[tuple[RunningMesh, MockCluster]]:
    """A mesh in front of one cluster."""
    cluster = MockCluster()
    mesh = RunningMesh(tmp_path, {"eu": cluster})
    yield mesh, cluster
    mesh.process.kill()


def records(name: str, count: int = 40) -> set[str]:
    return {f"{name}-{number}" for number in range(count)}


@pytest.mark.long
def test_clusters_come_and_go_under_a_member(eu: tuple[RunningMesh, MockCluster]) -> None:
    mesh, first = eu
    member = Member(mesh.shop["listen"])
    member.until(first.produce(records("a")))

    second = MockCluster()
    mesh.configuration["clusters"].append(cluster_of("us", second))
    mesh.shop["target"]["pool"]["topics"][0]["from"].append({"cluster": "us", "topic": "orders"})
    assert mesh.reload() == ["cluster us: added", "virtual cluster shop: changed (target.pool.topics)"]
    member.until(second.produce(records("b")) | first.produce(records("c")))

    del mesh.configuration["clusters"][0]
    del mesh.shop["target"]["pool"]["topics"][0]["from"][0]
    assert mesh.reload() == ["cluster eu: removed", "virtual cluster shop: changed (target.pool.topics)"]
    assert first.committed() == 80, "what was acknowledged is stored there"
    assert mesh.metric("kafka_mesh_upstream_up", cluster="us") == 1
    assert mesh.metric("kafka_mesh_upstream_up", cluster="eu") == 0
    late = first.produce(records("late"))
    member.until(second.produce(records("d")))
    assert sorted(member.values) == sorted(records("a") | records("b") | records("c") | records("d"))
    assert member.upstream_health in ([], ["revoked"]), "only to see the new partitions"

    mesh.configuration["clusters"].append(cluster_of("eu", first))
    mesh.shop["target"]["pool"]["topics"][0]["from"].append({"cluster": "eu", "topic": "orders"})
    mesh.reload()
    member.until(late)
    assert len(member.values) == len(set(member.values)) == 200
    member.close()


def test_another_advertised_address_is_told_from_then_on(eu: tuple[RunningMesh, MockCluster]) -> None:
    mesh, cluster = eu
    member = Member(mesh.shop["listen"])
    member.until(cluster.produce(records("a")))
    mesh.shop["advertise"] = {"listen": "mesh.example:9092", "coordinator": "mesh.example:9093"}
    assert mesh.reload() == ["virtual cluster shop: changed (advertise)"]
    told = AdminClient({"bootstrap.servers": mesh.shop["listen"]}).list_topics(timeout=30).brokers.values()
    assert {f"{broker.host}:{broker.port}" for broker in told} >= {"mesh.example:9092", "mesh.example:9093"}
    member.until(cluster.produce(records("b")))
    assert not member.upstream_health, "nobody is disconnected for it"
    member.close()


@pytest.mark.long
def test_a_virtual_cluster_changes_and_the_members_of_the_other_see_nothing(
    eu: tuple[RunningMesh, MockCluster],
) -> None:
    mesh, cluster = eu
    member = Member(mesh.shop["listen"])
    shown = cluster.produce(records("a"))
    member.until(shown)

    parts = virtual_cluster("parts", ["eu"])
    mesh.configuration["virtual_clusters"].append(parts)
    assert mesh.reload() == ["virtual cluster parts: added"]
    other = Member(parts["listen"])
    other.until(shown)

    parts["target"]["pool"]["lock_timeout"] = "1m"
    assert mesh.reload() == ["virtual cluster parts: restarted, its clients reconnect (target.pool.lock_timeout)"]
    shown |= cluster.produce(records("b"))
    other.until(shown)
    member.until(shown)
    assert other.upstream_health, "it had to connect again"
    assert len(other.values) == 80

    other.close()
    mesh.configuration["virtual_clusters"].remove(parts)
    assert mesh.reload() == ["virtual cluster parts: removed"]
    member.until(cluster.produce(records("c")))
    assert len(member.values) == 120
    assert not member.upstream_health
    member.close()


@pytest.mark.long
def test_a_user_s_password_changes(tmp_path: Path) -> None:
    cluster = MockCluster()
    mesh = RunningMesh(tmp_path, {"eu": cluster})
    try:
        users = [{"name": "alice", "password": "sesame-1"}]
        mesh.shop["sasl"] = {"mechanisms": ["SCRAM-SHA-256"], "users": users}
        (told,) = mesh.reload()
        assert told.startswith("virtual cluster shop: restarted"), "nobody stays who has not authenticated"

        def member(password: str) -> Member:
            mechanism = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
            return Member(mesh.shop["listen"], **mechanism, **{"sasl.username": "alice", "sasl.password": password})

        older = member("sesame-1")
        older.until(cluster.produce(records("a")))
        users[0]["password"] = "sesame-2"
        assert mesh.reload() == ["virtual cluster shop: changed (sasl)"]
        refused = member("sesame-1")

        def is_refused() -> bool:
            refused.poll(0.1)
            return any("_AUTHENTICATION" in problem for problem in refused.upstream_health)

        eventually("the older password is refused", is_refused, timeout=120)
        refused.close()
        newer = member("sesame-2")
        shown = records("a") | cluster.produce(records("b", 400))

        def all_shown() -> bool:
            older.poll(0.1)
            newer.poll(0.1)
            return shown <= {*older.values, *newer.values}

        eventually("both share what comes", all_shown, timeout=120)
        assert len(older.values) + len(newer.values) == 440
        assert not older.upstream_health, "who is connected stays so"
        older.close()
        newer.close()
    finally:
        mesh.process.kill()


@pytest.mark.long
def test_certificates_are_replaced_under_a_member(tmp_path: Path) -> None:
    """New certificates of another authority in other files need a reload; later ones in these files do not."""
    older, newer = Authority(tmp_path / "older", "Older"), Authority(tmp_path / "newer", "Newer")
    cluster = MockCluster()
    mesh = RunningMesh(tmp_path, {"eu": cluster})

    def member(authority: Authority) -> Member:
        trust = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
        return Member(mesh.shop["listen"], **trust)

    def serves(pair: Pair) -> bool:
        host, port = mesh.shop["listen"].split(":")
        return ssl.get_server_certificate((host, int(port))).strip() == pair.certificate.read_text().strip()

    try:
        first = older.issue("mesh-1")
        mesh.shop["tls"] = {"certificate_file": str(first.certificate), "key_file": str(first.key)}
        (told,) = mesh.reload()
        assert told.startswith("virtual cluster shop: restarted"), "nobody stays who is not encrypted"
        there = member(older)
        there.until(cluster.produce(records("a")))
        assert serves(first)

        second = newer.issue("mesh-2")
        mesh.shop["tls"] = {"certificate_file": str(second.certificate), "key_file": str(second.key)}
        assert mesh.reload() == ["virtual cluster shop: changed (tls)"]
        assert serves(second)
        there.until(cluster.produce(records("b")))
        assert not there.upstream_health, "who is connected stays so"
        there.close()
        later = member(newer)
        later.until(cluster.produce(records("c")))
        assert len(later.values) == 40, "what was committed does not come again"

        third = newer.issue("mesh-3", file="mesh-2")
        eventually("the files are read again", lambda: serves(third), timeout=120)
        later.until(cluster.produce(records("d")))
        assert not later.upstream_health
        later.close()
    finally:
        mesh.process.kill()


def test_what_is_wrong_changes_nothing_and_says_why(eu: tuple[RunningMesh, MockCluster]) -> None:
    mesh, cluster = eu
    member = Member(mesh.shop["listen"])
    member.until(cluster.produce(records("a")))
    before = mesh.configured()
    good = mesh.file.read_text()

    mesh.file.write_text(good.replace("cluster: eu", "cluster: mars"))
    at_start = mesh.command().stderr
    refused = mesh.command("--url", mesh.url)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == at_start, "the same words as where the file is read first"
    assert "topics[0].from[0].cluster: 'mars': one of the clusters defined: eu" in refused.stderr

    mesh.file.write_text(good.replace("mesh-1", "mesh-2"))
    refused = mesh.command()
    assert refused.returncode == 2
    assert "process_id: 'mesh-2' in place of 'mesh-1': unchanged: it cannot change while kafka-mesh runs" in (
        refused.stderr
    )
    assert mesh.metric("kafka_mesh_config_reload_failed") == 1

    mesh.file.write_text(f"{good}drain_grace: !!bool maybe\n")
    refused = mesh.command()
    assert refused.returncode == 2
    assert "drain_grace: line" in refused.stderr

    files = "tls: {certificate_file: /nowhere/a, key_file: /nowhere/b}\n"
    mesh.file.write_text(good.replace("- name: shop\n", f"- name: shop\n  {files}"))
    refused = mesh.command()
    assert refused.returncode == 2
    assert "virtual_clusters[0].tls.certificate_file: /nowhere/a: No such file or directory" in refused.stderr

    state = mesh.configured()
    assert (state["state"], state["hash"]) == ("refused", before["hash"])
    member.until(cluster.produce(records("b")))
    assert not member.upstream_health
    mesh.file.write_text(good)
    assert mesh.command().stdout.splitlines()[1:] == ["  nothing has changed"]
    assert mesh.metric("kafka_mesh_config_reload_failed") == 0
    member.close()


def test_a_relay_whose_cluster_cannot_be_connected_to_leaves_everything_as_it_was(
    eu: tuple[RunningMesh, MockCluster], tmp_path: Path
) -> None:
    mesh, cluster = eu
    member = Member(mesh.shop["listen"])
    member.until(cluster.produce(records("a")))
    before = mesh.configured()["hash"]
    good = copy.deepcopy(mesh.configuration)

    # librdkafka does not miss the key, so only the mesh's own connections find the mistake.
    certificate = Authority(tmp_path / "authority").issue("mesh").certificate
    secure = {"security.protocol": "ssl", "ssl.certificate.location": str(certificate)}
    front, node = (f"127.0.0.1:{free_port()}" for _ in range(2))
    mesh.configuration["clusters"][0]["properties"] = {"client.id": "mesh"}
    mesh.configuration["clusters"].append({**cluster_of("us", cluster), "properties": secure})
    target = {"relay": {"cluster": "us"}}
    relay = {"name": "front", "listen": front, "nodes": {"ports": int(node.split(":")[1])}, "target": target}
    mesh.configuration["virtual_clusters"].append(relay)
    mesh.write()
    refused = mesh.command()
    assert refused.returncode == 2
    assert "clusters[1].properties: a file of the ssl properties cannot be used: " in refused.stderr
    state = mesh.configured()
    assert (state["state"], state["hash"]) == ("refused", before)
    for address in (front, node):
        host, port = address.split(":")
        socket.create_server((host, int(port))).close()
    member.until(cluster.produce(records("b")))
    assert not member.upstream_health, "its cluster was not connected to anew"

    mesh.configuration = good
    mesh.write()
    assert mesh.command().stdout.splitlines()[1:] == ["  nothing has changed"]
    member.close()


def test_a_users_file_with_a_tag_that_does_not_fit_keeps_the_users(
    eu: tuple[RunningMesh, MockCluster], tmp_path: Path
) -> None:
    mesh, _ = eu
    users, log = tmp_path / "users.yaml", tmp_path / "mesh.log"
    users.write_text("users: [{name: alice, password: sesame}]")
    mesh.shop["sasl"] = {"mechanisms": ["PLAIN", "SCRAM-SHA-256"], "users_file": str(users)}
    mesh.reload()
    users.write_text("users: [{name: alice, password: !!int ''}]")
    eventually("it is refused", lambda: "file not reloaded" in log.read_text(), timeout=60)
    users.write_text("users: [{name: alice, password: sesame-2}]")
    eventually("it is read again", lambda: "file reloaded" in log.read_text(), timeout=60)
    assert mesh.process.exit_code is None
    assert mesh.metric("kafka_mesh_task_failures_total") == 0


def test_files_that_become_pipes_hold_up_neither_reloads_nor_other_files_nor_the_stop(
    eu: tuple[RunningMesh, MockCluster], tmp_path: Path
) -> None:
    mesh, _ = eu
    users, rules, log = tmp_path / "users.yaml", tmp_path / "rules.yaml", tmp_path / "mesh.log"
    users.write_text("users: [{name: alice, password: sesame}]")
    rules.write_text("rules: []")
    mesh.shop["sasl"] = {"mechanisms": ["PLAIN"], "users_file": str(users)}
    mesh.shop["authorization"] = {"rules_file": str(rules)}
    authority = Authority(tmp_path / "authority").certificate
    properties = {"security.protocol": "ssl", "ssl.ca.location": str(authority)}
    away = {"name": "us", "bootstrap_servers": "127.0.0.1:1", "engine": "librdkafka", "properties": properties}
    mesh.configuration["clusters"].append(away)
    mesh.reload()
    for path in (authority, users, mesh.file):
        path.unlink()
        os.mkfifo(path)
    for told in (f"{users}: not a regular file", f"{authority} is not a regular file"):
        eventually("it is refused", lambda told=told: told in log.read_text(), timeout=60)  # type: ignore[misc]
    rules.write_text("rules: []  # changed")
    eventually("the other one is read", lambda: "file reloaded" in log.read_text(), timeout=60)
    refused = mesh.command("--url", mesh.url)
    assert (refused.returncode, "not a regular file" in refused.stderr) == (2, True), refused.stderr
    mesh.process.signal(signal.SIGTERM)
    assert mesh.process.wait(timeout=60) == 0


@pytest.mark.long
def test_sighup_reads_the_file_again(eu: tuple[RunningMesh, MockCluster]) -> None:
    mesh, cluster = eu
    before = mesh.configured()["hash"]
    mesh.configuration["drain_grace"] = "2s"
    mesh.configuration["clusters"][0]["properties"] = {"client.id": "mesh"}
    mesh.write()
    member = Member(mesh.shop["listen"])
    member.until(cluster.produce(records("a")))
    mesh.process.signal(signal.SIGHUP)
    eventually("the configuration is another one", lambda: mesh.configured()["hash"] != before, timeout=120)
    eventually("it is in use", lambda: mesh.configured()["state"] == "applied", timeout=120)
    assert mesh.configured()["changes"] == ["changed: drain_grace", "cluster eu: connected to anew (properties)"]
    member.until(cluster.produce(records("b")))
    assert len(member.values) == 80
    assert not member.upstream_health
    member.close()
    mesh.process.signal(signal.SIGTERM)
    assert mesh.process.wait(60) == 0
