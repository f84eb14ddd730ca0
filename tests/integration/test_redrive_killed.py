"""`kafka-mesh dlq redrive` is killed with -9 again and again: all records go back, and none twice."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from mesh.commands.dead_letter_store import BUNDLE, GROUP, LettersUnavailable, dead_letter_topics
from mesh.config import load
from tests.integration.feeding import upstream_records
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import KAFKA_MESH
from tests.integration.processes import ChildProcess, eventually

TOPIC = "redrive-killed-orders"
KILLS = 8
LETTERS = 45 * BUNDLE


def configured(cluster: KafkaCluster, folder: Path) -> Path:
    pool = {
        "topics": [{"name": "orders", "from": [{"cluster": cluster.name, "topic": TOPIC}]}],
        "groups": ["*"],
        "dead_letters": {"topic": "{topic}.dead"},
    }
    configuration = {
        "clusters": [{"name": cluster.name, "bootstrap_servers": cluster.bootstrap_servers}],
        "virtual_clusters": [{"name": "orders", "listen": "127.0.0.1:1", "target": {"pool": pool}}],
    }
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(configuration))
    return path


def feed(cluster: KafkaCluster, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "queue.buffering.max.messages": 2 * count})
    for number in range(count):
        headers = [("kafka-mesh.topic", TOPIC), ("kafka-mesh.group", "odd" if number % 2 else "even")]
        producer.produce(f"{TOPIC}.dead", f"{number}|value", partition=0, headers=headers)  # type: ignore[arg-type]
    assert producer.flush(60) == 0


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_a_redrive_that_is_killed_again_and_again(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path
) -> None:
    eu = kafka_pair[0]
    for name in (TOPIC, f"{TOPIC}.dead"):
        eu.create_topic(name, 1)
    feed(eu, LETTERS)
    file, points = configured(eu, tmp_path), random.Random(7)

    def marked() -> int:
        return eu.committed(GROUP, f"{TOPIC}.dead").get((f"{TOPIC}.dead", 0), 0)

    gains = []
    for number in range(KILLS):
        before = marked()
        redrive = ChildProcess([KAFKA_MESH, "dlq", "redrive", file], log=tmp_path / f"redrive-{number}.log")
        eventually("something is redriven", lambda before=before: marked() > before, timeout=120)  # type: ignore[misc]
        time.sleep(points.random() * 0.1)  # the time of its death is random, so there is no event to wait for
        assert redrive.exit_code is None, redrive.log_tail()
        redrive.kill()
        gains.append(marked() - before)
    assert marked() < LETTERS, "there was something left each time"
    last = ChildProcess([KAFKA_MESH, "dlq", "redrive", file], log=tmp_path / "redrive-last.log")
    assert last.wait(120) == 0, last.log_tail()
    assert marked() == LETTERS
    back = upstream_records(eu, TOPIC)
    assert sorted(map(int, back)) == list(range(LETTERS)), "neither lost nor twice"
    assert min(gains) >= BUNDLE


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_redrive_marks_all_it_brings_back_or_refuses(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path
) -> None:
    """Every other letter is redriven: the marks take room, and an unmarked letter would be redriven again."""
    us = kafka_pair[1]
    for name in (TOPIC, f"{TOPIC}.dead"):
        us.create_topic(name, 1)
    feed(us, 4_000)
    clusters = dead_letter_topics(load(configured(us, tmp_path)))
    topics = next(clusters)
    (place,) = topics.ledgers()
    producer = topics.producer()
    odd = [each for each in topics.read(place, topics.ledgers()[place]) if each.about["group"] == "odd"]
    ledger, done = topics.ledgers()[place], 0
    with pytest.raises(LettersUnavailable, match="redrive those first"):
        for begin in range(0, len(odd), BUNDLE):
            topics.redrive(odd[begin : begin + BUNDLE], ledger, producer)
            done += BUNDLE
    assert 0 < done < len(odd)
    again = topics.ledgers()[place]
    assert [again.is_settled(each.offset) for each in odd] == [number < done for number in range(len(odd))]
    assert len(upstream_records(us, TOPIC)) == done
