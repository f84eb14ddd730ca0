"""Unmodified share consumers as separate processes, and their reports: confluent-kafka, Kafka's Java client."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.bench import Bench
from tests.integration.jars import kafka_jars
from tests.integration.kafka import KafkaCluster
from tests.integration.members import Member
from tests.integration.records import Delivery, View
from tests.integration.share_consumer import ShareOptions


class ShareMember(Member):
    """Runs `tests.integration.share_consumer`. accepted: records whose acknowledgement was confirmed; released: those
    of them that it gave back. Both by partition and offset."""

    def __init__(self, name: str, options: ShareOptions, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.integration.share_consumer", options.to_json()]
        self.deliveries_of: dict[tuple[int, int], list[int]] = {}
        self.acknowledged: set[tuple[int, int]] = set()
        self.released: set[tuple[int, int]] = set()
        super().__init__(name, command, folder)

    @property
    def accepted(self) -> set[tuple[int, int]]:
        """Its accepted records whose acknowledgement was answered."""
        self._catch_up()
        return self.acknowledged - self.released

    def _parse(self, data: bytes) -> int:
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            report = json.loads(line)
            match report["event"]:
                case "record":
                    place = (report["partition"], report["offset"])
                    self.deliveries_of.setdefault(place, []).append(report["deliveries"])
                    seen = Delivery(report["id"], View.WHOLE, report["fingerprint"], self.name, *place)
                    self._deliveries.append(seen)
                case "released":
                    self.released.add((report["partition"], report["offset"]))
                case "acknowledged":
                    self.acknowledged |= {(report["partition"], offset) for offset in report["offsets"]}
                    self._note("acknowledged")
                case event:
                    self._note(event)
        return whole


class JavaShareMember(Member):
    """Kafka's own VerifiableShareConsumer: it accepts each record, and waits for the answer after each poll."""

    _clean_exits = frozenset({0, 143})

    def __init__(
        self, name: str, kafka: KafkaCluster, bootstrap_servers: str, group: str, topic: str, folder: Path, clients: str
    ) -> None:
        """kafka: the one whose jars to use, behind those of `clients`; "" for none."""
        arguments = (
            *("--bootstrap-server", bootstrap_servers, "--group-id", group, "--topic", topic),
            *("--acknowledgement-mode", "sync", "--verbose"),
        )
        command = kafka.java("org.apache.kafka.tools.VerifiableShareConsumer", *arguments)
        if clients:
            path = command.index("-cp") + 1
            command[path] = f"{kafka_jars(clients)}/*:{command[path]}"
        super().__init__(name, command, folder)

    def _parse(self, data: bytes) -> int:
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            report = json.loads(line)
            if report["name"] == "record_data":
                value = (report["value"] or report["key"] or "").encode()
                place = (self.name, report["partition"], report["offset"])
                self._deliveries.append(Delivery(value.partition(b"|")[0].decode(), View.JAVA, "", *place))
            elif report["name"] == "offsets_acknowledged":
                self._note("committed" if report["success"] else "commit failed")
        return whole


class ShareBench(Bench):
    """A bench with share members."""

    def share(self, name: str, **options: Any) -> ShareMember:
        """Starts a share consumer of confluent-kafka on the mesh; options: of ShareOptions."""
        chosen = ShareOptions(
            self.mesh.bootstrap_servers, self.group, self.topic, properties={"client.id": name}, **options
        )
        return self._joined(ShareMember(name, chosen, self._folder))

    def java_share(self, name: str, clients: str = "") -> JavaShareMember:
        """Starts a VerifiableShareConsumer on the mesh; clients: the jars of kafka-clients, if not the usual ones."""
        kafka, address = self.clusters[0], self.mesh.bootstrap_servers
        return self._joined(JavaShareMember(name, kafka, address, self.group, self.topic, self._folder, clients))
