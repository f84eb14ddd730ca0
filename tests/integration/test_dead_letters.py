"""`kafka-mesh dlq` against a real broker: list, show, redrive in parts, and again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from confluent_kafka import Producer
from typer.testing import CliRunner

from mesh.cli import app
from mesh.commands.dead_letter_store import Headers, dead_letter_topics
from mesh.config import load
from tests.integration.feeding import upstream_records
from tests.integration.kafka import KafkaCluster

TOPIC = "dead-letters-orders"


@pytest.fixture
def file(kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path) -> Path:
    eu = kafka_pair[0]
    pool = {
        "topics": [{"name": "orders", "from": [{"cluster": "eu", "topic": TOPIC}]}],
        "groups": ["*"],
        "dead_letters": {"topic": "{topic}.dead"},
    }
    configuration = {
        "clusters": [{"name": "eu", "bootstrap_servers": eu.bootstrap_servers}],
        "virtual_clusters": [{"name": "orders", "listen": "127.0.0.1:1", "target": {"pool": pool}}],
    }
    path = tmp_path / "mesh.yaml"
    path.write_text(yaml.safe_dump(configuration))
    return path


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["dlq", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def letters(file: Path, *arguments: str) -> list[str]:
    return [json.loads(line)["offset"] for line in command("list", str(file), "--json", *arguments).splitlines()]


def test_dead_letters_go_back_once(kafka_pair: tuple[KafkaCluster, KafkaCluster], file: Path) -> None:
    eu = kafka_pair[0]
    for name in (TOPIC, f"{TOPIC}.dead"):
        eu.create_topic(name, 2)
    producer = Producer({"bootstrap.servers": eu.bootstrap_servers})
    for number in range(10):
        about = {"topic": TOPIC, "cluster": "eu", "offset": str(number), "group": "even" if number % 2 == 0 else "odd"}
        headers: Headers = [("own", b"\xff"), *((f"kafka-mesh.{name}", value) for name, value in about.items())]
        producer.produce(f"{TOPIC}.dead", f"{number}|value", b"key", number % 3 % 2, headers=headers)
    assert producer.flush(30) == 0

    assert sorted(letters(file)) == [str(number) for number in range(10)]
    assert sorted(letters(file, "--group", "odd")) == ["1", "3", "5", "7", "9"]
    assert letters(file, "--topic", "another") == []
    (shown,) = [
        json.loads(line)["letter"]
        for line in command("list", str(file), "--json").splitlines()
        if '"offset": "4"' in line
    ]
    assert "value: b'4|value'" in command("show", str(file), shown)
    assert "dead letters" in command("redrive", str(file), "--dry-run")
    assert len(letters(file)) == 10

    assert "5 records" in command("redrive", str(file), "--group", "odd")
    assert sorted(letters(file)) == ["0", "2", "4", "6", "8"], "also above those that were left out"
    assert "5 records" in command("redrive", str(file))
    assert "0 records" in command("redrive", str(file))
    back = upstream_records(eu, TOPIC)
    assert back.keys() == {str(number) for number in range(10)}
    assert {each.record.headers for each in back.values()} == {(("own", b"\xff"),)}

    producer.produce(f"{TOPIC}.dead", b"77|value", headers=[("kafka-mesh.topic", TOPIC), ("kafka-mesh.offset", "77")])
    assert producer.flush(30) == 0
    clusters = dead_letter_topics(load(file))
    topics = next(clusters)
    ledgers = topics.ledgers()
    (letter,) = [letter for place, ledger in ledgers.items() for letter in topics.read(place, ledger)]
    with pytest.raises(KeyboardInterrupt):
        topics.redrive([letter], ledgers[letter.place], cast(Producer, Interrupted(topics.producer())))
    assert letters(file) == ["77"]
    assert "1 records" in command("redrive", str(file))
    assert letters(file) == []
    assert sorted(upstream_records(eu, TOPIC)) == sorted([*map(str, range(10)), "77"]), "neither lost nor twice"


class Interrupted:
    """A producer whose user presses ^C before it commits the transaction."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        if name == "commit_transaction":
            self._producer.flush(30)
            raise KeyboardInterrupt
        return getattr(self._producer, name)
