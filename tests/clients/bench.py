"""The bench of the acceptance tests with every client that runs a script."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import TIMESTAMP_CREATE_TIME

from tests.clients.building import go_program, java_classes, node_program
from tests.clients.script import Script
from tests.integration.bench import Bench
from tests.integration.jars import kafka_jars
from tests.integration.java import java
from tests.integration.kafka import KafkaCluster
from tests.integration.members import KcatMember, Member
from tests.integration.processes import eventually
from tests.integration.records import Account, Delivery, Record, View


class Client(Enum):
    """The clients, by the name that docs/clients.md gives them."""

    AIOKAFKA = "aiokafka"
    KAFKA_PYTHON = "kafka-python"
    CONFLUENT = "confluent-kafka"
    KCAT = "kcat"
    JAVA = "kafka-clients"
    KAFKAJS = "kafkajs"
    PLATFORMATIC = "@platformatic/kafka"
    FRANZ = "franz-go"
    SARAMA = "sarama"
    SEGMENTIO = "kafka-go"


JAVASCRIPT = (Client.KAFKAJS, Client.PLATFORMATIC)
KNOWN_TO_ALL = ("none", "gzip")
"""Codecs that the JavaScript clients support by default. With other codecs they stop silently, with a broker as well.
The librdkafka engine decompresses for them."""


class ScriptedMember(Member):
    """A consumer that carries out a `Script`."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, view: View = View.WHOLE) -> None:
        super().__init__(name, command, folder)
        self._view = view

    # 128 + SIGTERM is how a JVM ends that was asked to.
    _clean_exits = frozenset({0, 143})
    # librdkafka's types of timestamps are Kafka's plus one.
    _TYPES: ClassVar = {0: TIMESTAMP_CREATE_TIME}

    def _parse(self, data: bytes) -> int:
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            report = json.loads(line)
            if report["event"] != "record":
                self._events[report["event"]] += 1
                continue
            key, value = _bytes(report["key"]), _bytes(report["value"])
            headers = tuple((name, _bytes(part)) for name, part in report["headers"])
            timestamp_type = self._TYPES.get(report["timestamp_type"], 0)
            if self._view is View.WITHOUT_NULL:
                value = value or None
            record = Record(key, value, headers, report["timestamp"], timestamp_type)
            place = (self.name, report["partition"], report["offset"])
            self._deliveries.append(Delivery(record.id, self._view, record.fingerprint(self._view), *place))
        return whole

    def until_acted(self) -> None:
        """Returns when it has carried out its script."""
        eventually(f"{self.name} acts", lambda: self.events["acted"])


class ClientBench(Bench):
    """Members of any client."""

    def member(self, client: Client, name: str, through: KafkaCluster | None = None, **script: Any) -> Member:
        """Starts a member of the bench's group, or one without a group (`group=None`), on the mesh, or directly on a
        cluster; script: of `Script`."""
        address = (through or self.mesh).bootstrap_servers
        group = {"group": self.group, **script}
        chosen = Script(bootstrap_servers=address, client_id=name, topic=self.topic, **group)
        if client is Client.KCAT:
            return self._joined(KcatMember(name, kcat_arguments(chosen), self._folder))
        command = [*command_of(client), chosen.to_json()]
        view = View.WITHOUT_NULL if client is Client.SEGMENTIO else View.WHOLE
        return self._joined(ScriptedMember(name, command, self._folder, view))

    def joined(self, client: Client, name: str, **script: Any) -> Member:
        """A `member`, once it got partitions."""
        member = self.member(client, name, **script)
        member.until_assigned()
        return member

    def account(self, timeout: float = 60.0) -> Account:
        """The account of all records, as soon as none is missing, or no more have come for this many seconds."""
        return self.account_when_all_arrived(timeout=timeout)

    def assert_no_errors_of_the_mesh(self) -> None:
        """AssertionError with the lines of level error in its log."""
        log = self._folder / "mesh.log"
        lines = log.read_text().splitlines() if log.exists() else []
        assert not (errors := [line for line in lines if '"level": "error"' in line]), errors


def command_of(client: Client) -> list[str]:
    """The command of a consumer of that client; its argument is a script."""
    match client:
        case Client.AIOKAFKA | Client.KAFKA_PYTHON | Client.CONFLUENT:
            library = client.value.partition("-kafka")[0].replace("-", "_")
            return [sys.executable, "-m", f"tests.clients.with_{library}"]
        case Client.JAVA:
            return java_program("Member")
        case Client.KAFKAJS | Client.PLATFORMATIC:
            library = "kafkajs" if client is Client.KAFKAJS else "platformatic"
            return ["node", str(node_program(f"with_{library}.js"))]
        case Client.FRANZ | Client.SARAMA | Client.SEGMENTIO:
            return [str(go_program(client.name.lower()))]
        case Client.KCAT:
            raise ValueError("kcat takes arguments, not a script")


def producer_of(client: Client) -> list[str]:
    """The command of a producer of that client; its argument is a feed."""
    match client:
        case Client.AIOKAFKA | Client.KAFKA_PYTHON | Client.CONFLUENT:
            return [sys.executable, "-m", "tests.clients.producing", client.value]
        case Client.JAVA:
            return java_program("Feeder")
        case Client.KAFKAJS | Client.PLATFORMATIC:
            return ["node", str(node_program("produce.js")), client.value]
        case Client.FRANZ | Client.SARAMA | Client.SEGMENTIO:
            return [str(go_program("produce")), client.value]
        case Client.KCAT:
            raise ValueError("kcat takes arguments, not a feed")


def java_program(name: str) -> list[str]:
    """The command that runs a class of java/."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"
    return java(kafka_jars(), name, classes=java_classes(), heap="128m", options=[quiet])


def kcat_arguments(script: Script) -> list[str]:
    """All arguments but the format."""
    properties = {
        "client.id": script.client_id,
        "auto.offset.reset": {"none": "error"}.get(script.reset, script.reset),
        "auto.commit.interval.ms": script.commit_interval,
        "session.timeout.ms": script.session_timeout,
    }
    if script.instance_id is not None:
        properties["group.instance.id"] = script.instance_id
    options = ["-b", script.bootstrap_servers]
    for name, value in properties.items():
        options += ["-X", f"{name}={value}"]
    if script.group is not None:
        return [*options, "-G", script.group, *script.topic.split(",")]
    return [*options, "-C", "-o", "end" if script.reset == "latest" else "beginning", "-t", script.topic]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
