"""Real clients in groups whose topics are in two clusters: nothing is lost, each member's commits are stored where the
topics are, and a group moves onto the union and off it with its offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.script import Protocol, Script
from tests.clients.selection import clients
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
    """Of both clusters; clients call that of us `us.` and that."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name).strip("-")
    for cluster in kafka_pair:
        cluster.create_topic(name, PARTITIONS)
    return name


def fed(kafka_pair: Clusters, topic: str, folder: Path, name: str) -> None:
    """So many records more in each cluster."""
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
        place = folder / name  # else they would report into one file
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
    """Two members show everything of both clusters, one goes on alone, and all is committed at each cluster."""
    fed(kafka_pair, topic, folder, "one")
    made = members(client, script, folder, ("a", "b"))
    try:
        of_one = everything(kafka_pair, topic)
        eventually("all is shown", lambda: shown(made) == of_one.keys(), timeout=60)
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


@pytest.mark.parametrize("home", ["", "us."])
@pytest.mark.parametrize("client", clients(quick=True))
def test_a_group_consumes_topics_of_both_clusters(
    kafka_pair: Clusters, union: UnionMesh, topic: str, client: Client, home: str, tmp_path: Path
) -> None:
    script = script_of(union, f"{home}{topic}", topic, client)
    check_consumed(kafka_pair, topic, client, script, tmp_path)


@pytest.mark.parametrize("client", clients((Client.CONFLUENT, Client.JAVA, Client.FRANZ)))
@pytest.mark.parametrize("subscribes", ["by name", "by pattern"])
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
@pytest.mark.parametrize("client", clients((Client.CONFLUENT, Client.JAVA, Client.FRANZ)))
def test_a_group_moves_onto_the_union_and_off_it_with_its_offsets(
    kafka_pair: Clusters, union: UnionMesh, topic: str, client: Client, protocol: Protocol, tmp_path: Path
) -> None:
    """One address is changed each time; nothing is delivered twice, as each member leaves before the next one comes."""
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
