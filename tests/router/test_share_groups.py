"""A share group over two clusters: it moves onto the union and off it, with the acknowledgements at each cluster; and
two processes of the mesh serve it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import ShareConsumer

from tests.integration.jars import missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.processes import eventually
from tests.relay.tools import JavaTools
from tests.router.test_groups import PARTITIONS, Clusters, everything, fed
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]


NOTHING = dict.fromkeys(range(PARTITIONS), "0")


class Member:
    """A share consumer that acknowledges the records that it has polled. seen: how often it got each record."""

    def __init__(self, address: str, group: str, topics: Sequence[str]) -> None:
        self._consumer = ShareConsumer({**CLIENT_PROPERTIES, "bootstrap.servers": address, "group.id": group})
        self._consumer.subscribe(list(topics))
        self.seen: Counter[str] = Counter()

    def poll(self) -> None:
        for message in self._consumer.poll(0.2):
            if message.error() is None:
                self.seen[(message.value() or b"").partition(b"|")[0].decode()] += 1

    def close(self) -> None:
        """Acknowledges the polled records, and closes."""
        self._consumer.commit_sync(10)
        self._consumer.close()


def delivered(all_members: Sequence[Member]) -> Counter[str]:
    return sum((each.seen for each in all_members), Counter[str]())


def until_delivered(at_work: Sequence[Member], all_members: Sequence[Member], stored: Mapping[str, object]) -> None:
    def is_delivered() -> bool:
        for each in at_work:
            each.poll()
        return delivered(all_members).keys() >= stored.keys()

    eventually("all is delivered", is_delivered, timeout=90, interval=0)


def lags(tools: JavaTools, cluster: KafkaCluster, group: str) -> dict[int, str]:
    """The number of unacknowledged records at a cluster, by partition, as Kafka's own tool prints it."""
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    code, output = tools.run("consumer.group.ShareGroupCommand", *at, "--describe", "--group", group, "--offsets")
    assert code == 0, output
    lines = [line.split() for line in output.splitlines()]
    head, *described = [line for line in lines if len(line) > 3 and line[0] in ("GROUP", group)]
    rows = [dict(zip(head, each, strict=False)) for each in described]
    return {int(each["PARTITION"]): each["LAG"] for each in rows}


def made_group(kafka_pair: Clusters, union: UnionMesh, name: str) -> str:
    """A group with a topic of each cluster, both with its name. It begins at the first records."""
    for cluster in kafka_pair:
        cluster.create_topic(name, PARTITIONS)
    address = ("--bootstrap-server", union.bootstrap_servers)
    change = ("--alter", "--group", name, "--add-config", "share.auto.offset.reset=earliest")
    kafka_pair[0].run_tool("kafka.admin.ConfigCommand", *address, *change)
    return name


def test_it_moves_onto_the_union_and_off_it(kafka_pair: Clusters, union: UnionMesh, tmp_path: Path) -> None:
    """Each time one address changes; no record is delivered twice."""
    tools, group = JavaTools(tmp_path / "tools.log"), made_group(kafka_pair, union, "shares-move")
    members: list[Member] = []
    for step in ("direct", "union", "direct-again"):
        fed(kafka_pair, group, tmp_path, step)
        if step == "union":
            at_work = [Member(union.bootstrap_servers, group, [group, f"us.{group}"])]
        else:
            at_work = [Member(cluster.bootstrap_servers, group, [group]) for cluster in kafka_pair]
        members += at_work
        until_delivered(at_work, members, everything(kafka_pair, group))
        for each in at_work:
            each.close()
        for cluster in kafka_pair:
            eventually(
                f"{step}: all is acknowledged at {cluster.name}",
                lambda cluster=cluster: lags(tools, cluster, group) == NOTHING,  # type: ignore[misc]
                interval=0.5,
            )
    assert set(delivered(members).values()) == {1}


def test_two_processes_serve_it(kafka_pair: Clusters, union: UnionMesh, tmp_path: Path) -> None:
    """One of them dies with kill -9, and the unacknowledged records of its member come to the other one."""
    tools, group = JavaTools(tmp_path / "tools.log"), made_group(kafka_pair, union, "shares-two")
    second = UnionMesh(tmp_path, *kafka_pair, name="second")
    members = [Member(each.bootstrap_servers, group, [group, f"us.{group}"]) for each in (union, second)]
    try:
        for step in ("one", "two"):
            fed(kafka_pair, group, tmp_path, step)
            until_delivered(members, members, everything(kafka_pair, group))
        assert all(each.seen for each in members)
        second.kill()
        fed(kafka_pair, group, tmp_path, "three")
        until_delivered(members[:1], members, everything(kafka_pair, group))
        members[0].close()
        for cluster in kafka_pair:
            eventually(
                f"all is acknowledged at {cluster.name}",
                lambda cluster=cluster: lags(tools, cluster, group) == NOTHING,  # type: ignore[misc]
                interval=0.5,
            )
    finally:
        second.kill()
