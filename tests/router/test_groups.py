"""Real clients in groups whose topics are in two clusters: no record is lost, the owners of the topics store each
member's commits, and a group moves onto the union and off it with its offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.script import Protocol, Script
from tests.clients.selection import OFTEN, clients
from tests.integration.feeding import log_ends, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.members import Member
from tests.integration.processes import eventually
from tests.integration.records import Stored, account
from tests.relay.matrix import committed, produced, started
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]

COUNT, PARTITIONS = 300, 2
Clusters = tuple[KafkaCluster, KafkaCluster]


@pytest.fixture
def topic(kafka_pair: Clusters, request: pytest.FixtureRequest) -> str:
    """A topic of both clusters; clients see the one of us with the prefix `us.`."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name).strip("-")
    for cluster in kafka_pair:
        cluster.create_topic(name, PARTITIONS)
    return name


def fed(kafka_pair: Clusters, topic: str, folder: Path, name: str) -> None:
    """Writes so many more records to each cluster."""
    for cluster in kafka_pair:
        feed = Feed(
            bootstrap_servers=cluster.bootstrap_servers, client_id=f"{name}-{cluster.name}", topic=topic, count=COUNT
        )
        produced(Client.CONFLUENT, feed, folder)


def everything(kafka_pair: Clusters, topic: str) -> Mapping[str, Stored]:
    return {each.record.id: each for cluster in kafka_pair for each in stored_upstream(cluster, topic)}


def members(client: Client, script: Script, folder: Path, names: Iterable[str]) -> list[Member]:
    made = []
    for name in names:
        place = folder / name  # otherwise they would report into one file
        place.mkdir()
        made.append(started(client, script, place))
    return made


def shown(all_members: Sequence[Member]) -> set[str]:
    return {each.id for member in all_members for each in member.deliveries}


def script_of(union: UnionMesh, group: str, topic: str, client: Client) -> Script:
    return Script(
        bootstrap_servers=union.bootstrap_servers,
        client_id="member",
        group=group,
        topic=f"{topic},us.{topic}",
        assignor="range" if client is Client.KAFKA_PYTHON else "",
    )


def check_consumed(kafka_pair: Clusters, topic: str, client: Client, script: Script, folder: Path) -> None:
    """Checks that two members show all records of both clusters, that one goes on alone, and that all is committed at
    each cluster."""
    fed(kafka_pair, topic, folder, "one")
    made = members(client, script, folder, ("a", "b"))
    try:
        of_one = everything(kafka_pair, topic)
        eventually("all is shown", lambda: shown(made) == of_one.keys(), timeout=60)
        made[-1].until_assigned()  # the other one may have shown all before it began
        made.pop().close()
        fed(kafka_pair, topic, folder, "more")
        stored = everything(kafka_pair, topic)
        eventually("all is shown", lambda: shown(made) >= stored.keys() - of_one.keys(), timeout=60)
        for cluster in kafka_pair:
            eventually(
                f"all is committed at {cluster.name}",
                lambda cluster=cluster: committed(cluster, script) == log_ends(cluster, topic),  # type: ignore[misc]
            )
        made[0].assert_running()
        made[0].close()
    finally:
        for member in made:
            member.kill()


@pytest.mark.smoke
@pytest.mark.parametrize("home", ["", "us."])
@pytest.mark.parametrize("client", clients(quick=True, often=[Client.JAVA]))
def test_a_group_consumes_topics_of_both_clusters(
    kafka_pair: Clusters, union: UnionMesh, topic: str, client: Client, home: str, tmp_path: Path
) -> None:
    script = script_of(union, f"{home}{topic}", topic, client)
    check_consumed(kafka_pair, topic, client, script, tmp_path)


@pytest.mark.parametrize("client", clients(OFTEN))
@pytest.mark.parametrize("subscribes", [pytest.param("by name", marks=pytest.mark.deep), "by pattern"])
def test_a_group_of_the_consumer_protocol_consumes_topics_of_both_clusters(
    kafka_pair: Clusters, union: UnionMesh, client: Client, subscribes: str, tmp_path: Path
) -> None:
    topic = f"consumers-{client.value}-{subscribes.replace(' ', '-')}"
    for cluster in kafka_pair:
        cluster.create_topic(topic, PARTITIONS)
    script = replace(
        script_of(union, topic, topic, client),
        protocol="consumer",
        pattern=f"^(us[.])?{topic}" if subscribes == "by pattern" else "",
    )
    check_consumed(kafka_pair, topic, client, script, tmp_path)


@pytest.mark.parametrize("protocol", get_args(Protocol))
@pytest.mark.parametrize("client", clients(OFTEN, often=[Client.CONFLUENT, Client.JAVA]))
def test_a_group_moves_onto_the_union_and_off_it_with_its_offsets(
    kafka_pair: Clusters, union: UnionMesh, topic: str, client: Client, protocol: Protocol, tmp_path: Path
) -> None:
    """Each time one address changes. No record is delivered twice, because each member leaves before the next one
    joins."""
    script = replace(script_of(union, topic, topic, client), protocol=protocol)
    seen: list[Member] = []
    for step in ("direct", "union", "direct again"):
        fed(kafka_pair, topic, tmp_path, step.replace(" ", "-"))
        stored = everything(kafka_pair, topic)
        if step == "union":
            at = members(client, script, tmp_path, [step])
        else:
            at = []
            for cluster in kafka_pair:
                own = replace(script, bootstrap_servers=cluster.bootstrap_servers, topic=topic)
                at += members(client, own, tmp_path, [f"{step}-{cluster.name}"])
        seen += at
        try:
            eventually(f"{step}: all is shown", lambda: shown(seen) == stored.keys(), timeout=60)  # noqa: B023
            for cluster in kafka_pair:
                eventually(
                    f"{step}: all is committed at {cluster.name}",
                    lambda cluster=cluster: committed(cluster, script) == log_ends(cluster, topic),  # type: ignore[misc]
                )
            for member in at:
                member.close()
        finally:
            for member in at:
                member.kill()
    account(everything(kafka_pair, topic), [each for member in seen for each in member.deliveries]).assert_each_once()
