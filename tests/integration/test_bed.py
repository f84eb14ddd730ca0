"""The test bed itself, against plain Kafka, without the mesh."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException

from tests.integration.kafka import KafkaCluster


def test_topics_come_and_go(kafka: KafkaCluster) -> None:
    kafka.create_topic("bed-topics", 3, {"retention.ms": "-1"})
    assert len(kafka.admin().list_topics("bed-topics", timeout=5).topics["bed-topics"].partitions) == 3
    kafka.delete_topic("bed-topics")


def test_pair_is_two_clusters(kafka_pair: tuple[KafkaCluster, KafkaCluster]) -> None:
    eu, us = kafka_pair
    eu.create_topic("bed-only-eu", 1)
    assert "bed-only-eu" not in us.admin().list_topics(timeout=5).topics


def test_killed_broker_comes_back_with_its_topics(kafka_pair: tuple[KafkaCluster, KafkaCluster]) -> None:
    _, us = kafka_pair
    us.create_topic("bed-kill", 2)
    us.kill()
    with pytest.raises(KafkaException):
        us.admin().list_topics(timeout=0.5)
    us.restart()
    assert len(us.admin().list_topics("bed-kill", timeout=5).topics["bed-kill"].partitions) == 2


def test_a_test_leaves_clusters_dead_and_frozen(kafka_pair: tuple[KafkaCluster, KafkaCluster]) -> None:
    eu, us = kafka_pair
    eu.freeze()
    us.kill()


def test_the_next_test_finds_them_running(kafka_pair: tuple[KafkaCluster, KafkaCluster]) -> None:
    for cluster in kafka_pair:
        assert cluster.admin().list_topics(timeout=10).brokers


def test_frozen_broker_hangs_until_thawed(kafka: KafkaCluster) -> None:
    admin = kafka.admin()
    kafka.freeze()
    try:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.5)
    finally:
        kafka.thaw()
    assert admin.list_topics(timeout=10).brokers


def test_tools_run(kafka: KafkaCluster) -> None:
    kafka.create_topic("bed-tools", 1)
    kafka_arguments = ("--bootstrap-server", kafka.bootstrap_servers, "--topic", "bed-tools")
    assert kafka.run_tool("org.apache.kafka.tools.GetOffsetShell", *kafka_arguments).split() == ["bed-tools:0:0"]
    with pytest.raises(RuntimeError, match="GetOffsetShell"):
        kafka.run_tool("org.apache.kafka.tools.GetOffsetShell", "--no-such-option")
