"""`kafka-mesh doctor` beside a real broker with rules, credentials and certificates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.faults.clusters import USER, SecuredCluster
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.mesh_process import KAFKA_MESH
from tests.integration.processes import START, completed, eventually

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    cluster = SecuredCluster("eu", kafka_jars(), tmp_path_factory.mktemp("doctor") / "eu")
    cluster.create_topic("orders", 2)
    yield cluster
    cluster.kill()


class Doctor:
    def __init__(self, folder: Path, cluster: SecuredCluster) -> None:
        self._file = folder / "mesh.yaml"
        self.cluster = cluster
        self.password = "right"
        self.topic = "orders"

    def examine(self, code: int) -> list[Mapping[str, Any]]:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER}
        topics = [{"name": "orders", "from": [{"cluster": "eu", "topic": self.topic}]}]
        configuration = {
            "clusters": [
                {
                    "name": "eu",
                    "bootstrap_servers": f"127.0.0.1:{self.cluster.sasl_port}",
                    "properties": {**login, "sasl.password": self.password},
                }
            ],
            "virtual_clusters": [
                {
                    "name": "shop",
                    "listen": "127.0.0.1:19092",
                    "coordinator": "127.0.0.1:19093",
                    "target": {"pool": {"topics": topics, "groups": ["bill*"]}},
                }
            ],
        }
        self._file.write_text(yaml.safe_dump(configuration))
        found: list[Mapping[str, Any]] = json.loads(self.shown(code, "--json"))
        return found

    def shown(self, code: int, *options: str) -> str:
        done = completed([KAFKA_MESH, "doctor", self._file, *options])
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


def texts(found: list[Mapping[str, Any]], level: str) -> list[str]:
    return [f"{each['about']}: {each['found']}" for each in found if each["level"] == level]


def test_what_is_wrong_is_told_with_a_remedy(tmp_path: Path, cluster: SecuredCluster) -> None:
    doctor = Doctor(tmp_path, cluster)
    found = doctor.examine(1)
    assert texts(found, "problem") == ["cluster eu: topic orders does not exist, or may not be described"]
    assert all(each["remedy"] for each in found if each["level"] != "ok")
    shown = doctor.shown(1)
    assert all(each["found"][:40] in shown.replace("\n", "") for each in found), shown
    cluster.allow_but_not_to_read(USER, "other", "orders")
    assert texts(doctor.examine(1), "problem") == ["cluster eu: topic orders may not be read"]
    cluster.allow(USER, "billing", "orders")
    cluster.allow_to_see_configurations(USER)
    found = doctor.examine(0)
    assert not texts(found, "problem"), found
    assert "cluster eu: 1 topic of pools there and readable" in texts(found, "ok")
    assert "cluster eu: commit metadata of 4000 characters fits" in texts(found, "ok")


def test_members_that_are_not_ours(tmp_path: Path, cluster: SecuredCluster) -> None:
    cluster.allow(USER, "billing", "orders")
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing", "group.protocol": "consumer"}
    )
    try:
        consumer.subscribe(["orders"])
        eventually("it has partitions", lambda: consumer.poll(0.1) or consumer.assignment(), timeout=START)
        told = texts(Doctor(tmp_path, cluster).examine(0), "warning")
        assert any(each.startswith("group billing in eu: 1 member of the consumer protocol") for each in told), told
    finally:
        consumer.close()


def test_members_beside_which_kafka_mesh_cannot_join(tmp_path: Path, cluster: SecuredCluster) -> None:
    cluster.allow(USER, "bill-sticky", "orders")
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="bill-sticky",
        partition_assignment_strategy=[StickyPartitionAssignor],
        metadata_max_age_ms=1_000,  # its first metadata may be of before the right
    )
    try:
        eventually("it has partitions", lambda: consumer.poll(100) or consumer.assignment(), timeout=START)
        told = texts(Doctor(tmp_path, cluster).examine(1), "problem")
        (found,) = (each for each in told if "bill-sticky" in each)
        assert found.startswith("group bill-sticky in eu: its members use the assignor 'sticky': ")
    finally:
        consumer.close()


def test_a_cluster_that_cannot_be_used(tmp_path: Path, cluster: SecuredCluster) -> None:
    doctor = Doctor(tmp_path, cluster)
    doctor.password = "wrong"
    (found,) = doctor.examine(1)
    assert (found["level"], found["about"]) == ("problem", "cluster eu")
    assert found["found"].startswith("does not answer: ")
