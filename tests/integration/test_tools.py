"""Kafka's own kafka-consumer-groups against the mesh: what it shows is what is true upstream."""

from __future__ import annotations

import subprocess

import pytest

from tests.integration.bench import Bench, until_left
from tests.integration.feeding import log_ends
from tests.integration.processes import eventually

CLASS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def tool(bench: Bench, *arguments: str) -> str:
    """What kafka-consumer-groups prints, its complaints included."""
    command = bench.clusters[0].java(CLASS, "--bootstrap-server", bench.mesh.bootstrap_servers, *arguments)
    done = subprocess.run([*command, "--timeout", "20000"], capture_output=True, text=True, timeout=90)
    return done.stdout + done.stderr


def table(text: str) -> list[dict[str, str]]:
    """The lines below the one with the names of the columns."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    start = next(at for at, line in enumerate(lines) if line[0] == "GROUP")
    # Remarks come after the table, and begin otherwise.
    rows = (line for line in lines[start + 1 :] if len(line) >= 2 and line[0] == lines[start + 1][0])
    return [dict(zip(lines[start], line, strict=False)) for line in rows]


def described(bench: Bench) -> dict[int, dict[str, str]]:
    """What --describe --offsets says of each partition."""
    rows = table(tool(bench, "--describe", "--offsets", "--group", bench.group))
    found = {int(row["PARTITION"]): row for row in rows if row["PARTITION"] != "-"}
    assert len(found) == len([row for row in rows if row["PARTITION"] != "-"]), "a partition is shown twice"
    return found


def committed(bench: Bench) -> dict[int, int]:
    """What is committed upstream, by the partitions of the mesh: those of one cluster follow those of the other."""
    return {
        number * 3 + partition: offset
        for number, cluster in enumerate(bench.clusters)
        for (_, partition), offset in cluster.committed(bench.group).items()
    }


def ends(bench: Bench) -> dict[int, int]:
    """The same of the ends of the logs, which are aborted records and markers."""
    return {
        number * 3 + partition: end
        for number, cluster in enumerate(bench.clusters)
        for partition, end in log_ends(cluster, bench.topic).items()
    }


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
    unsupported = tool(bench, "--delete-offsets", "--group", bench.group, "--topic", bench.topic)
    assert "not supported" in unsupported, unsupported
    deleted = tool(bench, "--delete", "--group", bench.group)
    assert "was successful" in deleted, deleted
    assert committed(bench) == {}
    assert f"Group {bench.group} not found" in tool(bench, "--describe", "--group", bench.group)
