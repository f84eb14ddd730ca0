"""A group over two clusters in company: another consumer uses one of them directly, two processes serve the group,
tools look at it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from tests.clients.bench import Client
from tests.clients.script import Protocol, Script
from tests.integration.feeding import log_ends
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.relay.matrix import committed
from tests.relay.tools import JavaTools
from tests.router.test_groups import PARTITIONS, Clusters, everything, fed, members, script_of, shown
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]


def made_topic(kafka_pair: Clusters, name: str) -> str:
    for cluster in kafka_pair:
        cluster.create_topic(name, PARTITIONS)
    return name


def has_committed_all(cluster: KafkaCluster, script: Script, topic: str) -> None:
    eventually(f"all is committed at {cluster.name}", lambda: committed(cluster, script) == log_ends(cluster, topic))


def test_somebody_consumes_one_cluster_directly(kafka_pair: Clusters, union: UnionMesh, tmp_path: Path) -> None:
    """The direct consumer has that cluster's partitions and offsets of the group. Members of the union go on, and the
    operator sees the problem as long as it is there."""
    us = kafka_pair[1]
    topic = made_topic(kafka_pair, "company-direct")
    script = script_of(union, topic, topic, Client.CONFLUENT)
    fed(kafka_pair, topic, tmp_path, "one")
    made = members(Client.CONFLUENT, script, tmp_path, ["union"])
    made[0].until_delivered(1)  # before that the cluster may have no coordinators

    def problems() -> list[str]:
        return [each["problem"] for each in union.readiness()["degraded"]]

    try:
        for cluster in kafka_pair:
            has_committed_all(cluster, script, topic)
        before = len(made[0].deliveries)
        own = Script(bootstrap_servers=us.bootstrap_servers, client_id="direct", group=topic, topic=topic)
        (direct,) = members(Client.CONFLUENT, own, tmp_path, ["direct"])
        made.append(direct)
        direct.until_assigned()
        fed(kafka_pair, topic, tmp_path, "more")
        eventually("the problem is told", lambda: problems() == ["group_elsewhere"])
        new = everything(kafka_pair, topic).keys() - {each.id for each in made[0].deliveries[:before]}
        eventually("the direct one has all of its cluster", lambda: {i for i in new if "-us-" in i} == shown([direct]))
        eventually("the union's has everything", lambda: shown(made[:1]) >= new)
        for cluster in kafka_pair:
            has_committed_all(cluster, script, topic)
        direct.close()
        fed(kafka_pair, topic, tmp_path, "last")
        for cluster in kafka_pair:
            has_committed_all(cluster, script, topic)
        eventually("it is over", lambda: not problems())
        made[0].assert_running()
    finally:
        for member in made:
            member.kill()


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_two_processes_serve_one_group(
    kafka_pair: Clusters, union: UnionMesh, protocol: Protocol, tmp_path: Path
) -> None:
    topic = made_topic(kafka_pair, f"company-two-{protocol}")
    second = UnionMesh(tmp_path, *kafka_pair, name="second")
    scripts = [replace(script_of(each, topic, topic, Client.CONFLUENT), protocol=protocol) for each in (union, second)]
    made = [members(Client.CONFLUENT, each, tmp_path, [name])[0] for each, name in zip(scripts, "ab", strict=True)]
    try:
        for step in ("one", "two"):
            fed(kafka_pair, topic, tmp_path, step)
            stored = everything(kafka_pair, topic)
            eventually("all is shown", lambda: shown(made) == stored.keys())  # noqa: B023
            for cluster in kafka_pair:
                has_committed_all(cluster, scripts[0], topic)
        second.kill()  # with the member that knows no other
        made[1].kill()
        fed(kafka_pair, topic, tmp_path, "three")
        stored = everything(kafka_pair, topic)
        # The partitions of a member of the consumer protocol are free after its session, 45 s.
        eventually("all is shown", lambda: shown(made) == stored.keys(), timeout=120)
        for cluster in kafka_pair:
            has_committed_all(cluster, scripts[0], topic)
    finally:
        second.kill()
        for member in made:
            member.kill()


def test_tools_see_and_change_offsets_of_both_clusters(kafka_pair: Clusters, union: UnionMesh, tmp_path: Path) -> None:
    topic = made_topic(kafka_pair, "company-tools")
    script = script_of(union, topic, topic, Client.CONFLUENT)
    fed(kafka_pair, topic, tmp_path, "one")
    (member,) = members(Client.CONFLUENT, script, tmp_path, ["one"])
    try:
        member.until_delivered(1)
        for cluster in kafka_pair:
            has_committed_all(cluster, script, topic)
        member.close()
    finally:
        member.kill()
    tools = JavaTools(tmp_path / "tools.log")

    def groups(*arguments: str) -> str:
        at = ("--bootstrap-server", union.bootstrap_servers)
        code, output = tools.run("consumer.group.ConsumerGroupCommand", *at, *arguments)
        assert code == 0, output
        return output

    fed(kafka_pair, topic, tmp_path, "more")
    lines = [line.split() for line in groups("--describe", "--group", topic).splitlines()]
    head, *described = [line for line in lines if len(line) > 5 and line[0] in ("GROUP", topic)]
    rows = [dict(zip(head, each, strict=False)) for each in described]
    lags = {(each["TOPIC"], int(each["PARTITION"])): int(each["LAG"]) for each in rows}
    assert lags == {
        (f"{prefix}{topic}", partition): end - committed(cluster, script)[partition]
        for prefix, cluster in zip(("", "us."), kafka_pair, strict=True)
        for partition, end in log_ends(cluster, topic).items()
    }
    assert topic in groups("--list").split()
    groups("--reset-offsets", "--to-earliest", "--all-topics", "--execute", "--group", topic)
    for cluster in kafka_pair:
        assert set(committed(cluster, script).values()) == {0}
    groups("--delete-offsets", "--topic", f"us.{topic}", "--group", topic)
    assert [bool(committed(cluster, script)) for cluster in kafka_pair] == [True, False]
    groups("--delete", "--group", topic)
    assert not any(committed(cluster, script) for cluster in kafka_pair)
