"""Kafka's own tools at the mesh: they show the upstream state, and their changes take effect."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.bench import Bench, until_left
from tests.integration.feeding import log_ends
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.share_members import ShareBench

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LIMIT = "share.delivery.count.limit"


def run(bench: Bench, name: str, *arguments: str) -> str:
    """The output of one of Kafka's tools, with its complaints."""
    command = bench.clusters[0].java(name, "--bootstrap-server", bench.mesh.bootstrap_servers, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    return done.stdout + done.stderr


def tool(bench: Bench, *arguments: str) -> str:
    """Runs kafka-consumer-groups."""
    return run(bench, CONSUMER_GROUPS, *arguments, "--timeout", "20000")


def table(text: str) -> list[dict[str, str]]:
    """The lines below the names of the columns."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    start = next(at for at, line in enumerate(lines) if line[0] == "GROUP")
    # Remarks come after the table, and begin differently.
    rows = (line for line in lines[start + 1 :] if len(line) >= 2 and line[0] == lines[start + 1][0])
    return [dict(zip(lines[start], line, strict=False)) for line in rows]


def described(bench: Bench) -> dict[int, dict[str, str]]:
    """The output of --describe --offsets for each partition."""
    rows = table(tool(bench, "--describe", "--offsets", "--group", bench.group))
    found = {int(row["PARTITION"]): row for row in rows if row["PARTITION"] != "-"}
    assert len(found) == len([row for row in rows if row["PARTITION"] != "-"]), "a partition is shown twice"
    return found


def committed(bench: Bench) -> dict[int, int]:
    """The upstream commits, by the partitions of the mesh: those of one cluster follow those of the other."""
    return {
        number * 3 + partition: offset
        for number, cluster in enumerate(bench.clusters)
        for (_, partition), offset in cluster.committed(bench.group).items()
    }


def ends(bench: Bench) -> dict[int, int]:
    """The same for the ends of the logs: aborted records and markers."""
    return {
        number * 3 + partition: end
        for number, cluster in enumerate(bench.clusters)
        for partition, end in log_ends(cluster, bench.topic).items()
    }


@pytest.mark.smoke
@pytest.mark.timeout(240)
def test_kafka_consumer_groups(bench: Bench) -> None:
    bench.start_mesh()
    bench.feed(1_200)
    classic = bench.confluent("classic", commit="sync")
    new = bench.confluent("new", commit="sync", properties={"group.protocol": "consumer"})
    bench.account_when_all_arrived().assert_each_once()
    for member in (classic, new):
        member.until_assigned()
    eventually("everything is committed", lambda: committed(bench) == ends(bench))

    assert bench.group in tool(bench, "--list").split()
    (state,) = table(tool(bench, "--describe", "--state", "--group", bench.group))
    assert "Stable" in state.values()
    members = table(tool(bench, "--describe", "--members", "--group", bench.group))
    assert {row["CLIENT-ID"] for row in members} == {"classic", "new"}
    assert {row["HOST"] for row in members} == {"/127.0.0.1"}
    rows = described(bench)
    assert {index: int(row["CURRENT-OFFSET"]) for index, row in rows.items()} == committed(bench)
    assert {index: int(row["LOG-END-OFFSET"]) for index, row in rows.items()} == ends(bench)
    assert {row["LAG"] for row in rows.values()} == {"0"}

    refused = tool(bench, "--delete", "--group", bench.group)
    assert "not empty" in refused, refused
    bench.close_members()
    for cluster in bench.clusters:
        until_left(cluster, bench.group)

    before = ends(bench)
    bench.feed(600)
    lags = {index: int(row["LAG"]) for index, row in described(bench).items()}
    assert lags == {index: end - before[index] for index, end in ends(bench).items()}
    assert sum(lags.values()) >= 600
    reset = tool(bench, "--reset-offsets", "--to-earliest", "--execute", "--group", bench.group, "--all-topics")
    assert committed(bench) == dict.fromkeys(range(6), 0), reset
    forgotten = tool(bench, "--delete-offsets", "--group", bench.group, "--topic", bench.topic)
    assert "Successful" in forgotten, forgotten
    assert committed(bench) == {}
    tool(bench, "--reset-offsets", "--to-earliest", "--execute", "--group", bench.group, "--all-topics")
    deleted = tool(bench, "--delete", "--group", bench.group)
    assert "was successful" in deleted, deleted
    assert committed(bench) == {}
    assert f"Group {bench.group} not found" in tool(bench, "--describe", "--group", bench.group)


@pytest.fixture
def share_bench(kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path) -> Iterator[ShareBench]:
    bench = ShareBench(kafka_pair, "kafka-share-groups", tmp_path)
    bench.create_topics()
    yield bench
    bench.end()


@pytest.mark.timeout(300)
def test_kafka_configs_and_kafka_share_groups(share_bench: ShareBench) -> None:
    """Configurations of a share group take effect, and survive the mesh. A deleted group is gone with all its state,
    even if it has no pool any more."""
    bench = share_bench
    store = {"cluster": bench.clusters[0].name, "topic": f"store-{bench.topic}", "create": True}
    mesh = bench.start_mesh(process={"process_id": "mesh-1", "store": store})
    group = ("--group", bench.group)
    bench.feed(600)
    before = ends(bench)
    configs = f"{LIMIT}=7,share.auto.offset.reset=by_duration:P19000D"
    set_now = run(bench, CONFIGS, "--alter", *group, "--add-config", configs)
    assert "Completed updating config" in set_now, set_now
    refused = run(bench, CONFIGS, "--alter", *group, "--add-config", f"{LIMIT}=70")
    assert "a whole number from 2 to 10" in refused, refused
    mesh.kill()
    mesh.restart()
    shown = run(bench, CONFIGS, "--describe", *group)
    assert f"{LIMIT}=7" in shown, shown

    member = bench.share("one")
    bench.account_when_all_arrived().assert_each_once()
    assert before == ends(bench)
    eventually("everything is committed", lambda: committed(bench) == before)
    bench.close_members()
    assert not member.events["error"]
    for cluster in bench.clusters:
        until_left(cluster, bench.group)

    mesh.kill()
    mesh.restart()
    assert bench.group in run(bench, SHARE_GROUPS, "--list").split()
    forgotten = run(bench, SHARE_GROUPS, "--delete-offsets", *group, "--topic", bench.topic)
    eventually("nothing is committed", lambda: committed(bench) == {}, timeout=5)
    assert "Error" not in forgotten, forgotten
    deleted = run(bench, SHARE_GROUPS, "--delete", *group)
    assert "was successful" in deleted, deleted
    assert bench.group not in run(bench, SHARE_GROUPS, "--list").split()
    assert f"{LIMIT}=7" not in run(bench, CONFIGS, "--describe", *group)
