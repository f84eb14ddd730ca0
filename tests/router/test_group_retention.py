"""Offsets that a group has stored in a cluster with a retention of a minute are still there after five, as long as the
group has members; even if the group has once consumed there directly."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.script import Protocol, Script
from tests.integration.feeding import log_ends
from tests.integration.jars import KAFKA_VERSION, kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.relay.matrix import committed, produced
from tests.router.test_groups import members
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
RETENTION = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "5000"}
CLASSIC_ONLY = "3.9.1"
"""A version of brokers without the consumer protocol."""
MINUTES = 5
COUNT = 20
TOPIC = "quiet-{}"
"""The topic by version; the other cluster is the same for all."""


@pytest.fixture(params=[KAFKA_VERSION, pytest.param(CLASSIC_ONLY, marks=pytest.mark.deep)])
def forgetful(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(request.param, kafka_jars(request.param), tmp_path / "forgetful", RETENTION)
    yield cluster
    cluster.kill()


def protocols(cluster: KafkaCluster) -> Sequence[Protocol]:
    """The protocols of the cluster for consumer groups."""
    return ("classic",) if cluster.name == CLASSIC_ONLY else ("classic", "consumer")


def consume_directly(cluster: KafkaCluster, group: str, protocol: Protocol, folder: Path) -> None:
    """Consumes all records there directly, and then no more."""
    script = Script(
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="direct",
        group=group,
        topic=TOPIC.format(cluster.name),
        protocol=protocol,
    )
    (member,) = members(Client.CONFLUENT, script, folder, [f"direct-{protocol}"])
    try:
        until_all_is_there(cluster, [script])
        member.close()
    finally:
        member.kill()


def until_all_is_there(cluster: KafkaCluster, scripts: Iterable[Script]) -> None:
    """Waits for the offsets of these groups. A forgotten offset does not come back, because no member has anything to
    commit."""

    def is_there(script: Script) -> bool:
        try:
            return committed(cluster, script) == log_ends(cluster, TOPIC.format(cluster.name))
        except KafkaException:  # on a busy machine a broker may briefly not coordinate its groups
            return False

    for script in scripts:
        eventually(f"{script.group} has its offsets", lambda script=script: is_there(script))  # type: ignore[misc]


def test_what_a_cluster_would_forget_is_kept(kafka: KafkaCluster, forgetful: KafkaCluster, tmp_path: Path) -> None:
    (tmp_path / "union").mkdir()
    union = UnionMesh(tmp_path / "union", kafka, forgetful)
    topic = TOPIC.format(forgetful.name)
    at_once = []
    try:
        for cluster in (kafka, forgetful):
            cluster.create_topic(topic, 1)
            feed = Feed(bootstrap_servers=cluster.bootstrap_servers, client_id="feed", topic=topic, count=COUNT)
            produced(Client.CONFLUENT, feed, tmp_path)
        groups = ["never-direct"]
        for protocol in protocols(forgetful):
            groups.append(f"was-direct-{protocol}")
            consume_directly(forgetful, groups[-1], protocol, tmp_path)
        scripts = [
            Script(
                bootstrap_servers=union.bootstrap_servers, client_id="member", group=group, topic=f"{topic},us.{topic}"
            )
            for group in groups
        ]
        for script in scripts:
            at_once += members(Client.CONFLUENT, script, tmp_path, [str(script.group)])
        until_all_is_there(forgetful, scripts)
        until = time.monotonic() + MINUTES * 60
        while time.monotonic() < until:
            time.sleep(10)  # the retention time itself is tested
            until_all_is_there(forgetful, scripts)
        for member in at_once:
            member.assert_running()
    finally:
        for member in at_once:
            member.kill()
        union.kill()
