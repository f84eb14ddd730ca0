"""Offsets that a group has stored in a cluster which keeps them for a minute are there after five, as long as the group
has members; also if the group has once consumed there directly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.script import Script
from tests.integration.feeding import log_ends
from tests.integration.jars import kafka_jars, missing_programs
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
MINUTES = 5
COUNT = 20


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster("forgetful", kafka_jars(), tmp_path / "forgetful", RETENTION)
    yield cluster
    cluster.kill()


def test_what_a_cluster_would_forget_is_kept(kafka: KafkaCluster, forgetful: KafkaCluster, tmp_path: Path) -> None:
    (tmp_path / "union").mkdir()
    union = UnionMesh(tmp_path / "union", kafka, forgetful)
    at_once = []
    try:
        for cluster in (kafka, forgetful):
            cluster.create_topic("quiet", 1)
            feed = Feed(bootstrap_servers=cluster.bootstrap_servers, client_id="feed", topic="quiet", count=COUNT)
            produced(Client.CONFLUENT, feed, tmp_path)
        direct = Script(
            bootstrap_servers=forgetful.bootstrap_servers, client_id="direct", group="was-direct", topic="quiet"
        )
        (tmp_path / "direct").mkdir()
        (earlier,) = members(Client.CONFLUENT, direct, tmp_path / "direct", ["direct"])
        at_once.append(earlier)
        eventually("it has committed", lambda: committed(forgetful, direct) == log_ends(forgetful, "quiet"))
        earlier.close()
        scripts = [
            Script(bootstrap_servers=union.bootstrap_servers, client_id="member", group=group, topic="quiet,us.quiet")
            for group in ("was-direct", "never-direct")
        ]
        for script in scripts:
            at_once += members(Client.CONFLUENT, script, tmp_path, [str(script.group)])
        for script in scripts:
            eventually(
                "it has committed",
                lambda script=script: committed(forgetful, script) == log_ends(forgetful, "quiet"),  # type: ignore[misc]
            )
        until = time.monotonic() + MINUTES * 60
        while time.monotonic() < until:
            time.sleep(10)  # how long they are kept is the subject
            for script in scripts:
                assert committed(forgetful, script) == log_ends(forgetful, "quiet"), script.group
        for member in at_once[1:]:
            member.assert_running()
    finally:
        for member in at_once:
            member.kill()
        union.kill()
