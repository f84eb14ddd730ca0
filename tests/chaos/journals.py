"""Members as processes, and their journals: a record that was reported before its commit survives kill -9."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME

from tests.chaos.evidence import Acknowledgement, Commit, Delivery
from tests.chaos.plan import Kind
from tests.clients.bench import Client, command_of, kcat_arguments
from tests.clients.consuming import DEAD
from tests.clients.script import Script
from tests.integration.members import KcatMember
from tests.integration.processes import ChildProcess
from tests.integration.records import Record, View

_CLIENTS = {
    Kind.CONFLUENT: Client.CONFLUENT,
    Kind.KAFKA_PYTHON: Client.KAFKA_PYTHON,
    Kind.AIOKAFKA: Client.AIOKAFKA,
    Kind.JAVA: Client.JAVA,
    Kind.KCAT: Client.KCAT,
    Kind.AUTOMATIC: Client.CONFLUENT,
    Kind.AUTOMATIC_CONSUMER_PROTOCOL: Client.CONFLUENT,
    Kind.CONFLUENT_CONSUMER_PROTOCOL: Client.CONFLUENT,
    Kind.JAVA_CONSUMER_PROTOCOL: Client.JAVA,
}


SHARE = [sys.executable, "-m", "tests.chaos.share_member"]


class ChaosMember:
    """A consumer process with a journal."""

    def __init__(self, name: str, kind: Kind, script: Script, folder: Path) -> None:
        self.name = name
        self.kind = kind
        self.journal = folder / f"{name}.out"
        self._read = 0
        self._count = 0
        self._kcat: KcatMember | None = None
        if kind is Kind.KCAT:
            self._kcat = KcatMember(name, kcat_arguments(script), folder)
            self.process = self._kcat.process
        else:
            program = SHARE if kind is Kind.SHARE else command_of(_CLIENTS[kind])
            command = [*program, script.to_json()]
            self.process = ChildProcess(command, log=folder / f"{name}.log", stdout=self.journal)

    @property
    def is_gone(self) -> bool:
        return self.process.exit_code is not None

    @property
    def died_of_poison(self) -> bool:
        return self.process.exit_code == DEAD

    def count(self) -> int:
        """The number of journaled records, or a little more; reads only new entries."""
        with self.journal.open("rb") as journal:
            journal.seek(self._read)
            data = journal.read()
        self._read += len(data)
        self._count += data.count(b"\n" if self._kcat else b'"record"')
        return self._count

    def commits(self) -> Iterator[Commit]:
        """Its answered commits."""
        for report in self._reports():
            if report["event"] == "committed" and "offsets" in report:
                offsets = {int(partition): offset for partition, offset in report["offsets"].items()}
                yield Commit(self.name, report["at"], offsets)

    def acknowledgements(self) -> Iterator[Acknowledgement]:
        """The answered acknowledgements of a share member."""
        for report in self._reports():
            if report["event"] == "acknowledged":
                for offset in report["offsets"]:
                    yield Acknowledgement(self.name, report["at"], report["partition"], offset)

    def assignments(self) -> Iterator[float]:
        """The times of new assignments, without mere additions."""
        has_some = False
        for report in self._reports():
            match report["event"]:
                case "assigned":
                    if not (has_some and self.kind.is_of_the_consumer_protocol):
                        yield report["at"]
                    has_some = True
                case "revoked" | "lost":
                    has_some = False

    def deliveries(self) -> Iterator[Delivery]:
        """Deliveries in the order of its journal."""
        if self._kcat is not None:
            for each in self._kcat.deliveries:
                yield Delivery(self.name, None, each.partition, each.offset, each.id, each.fingerprint)
            return
        for report in self._reports():
            if report["event"] == "record":
                record = _record(report)
                place = (report["partition"], report["offset"])
                yield Delivery(self.name, report["at"], *place, record.id, record.fingerprint(View.WHOLE))

    def _reports(self) -> Iterator[dict[str, Any]]:
        if self._kcat is not None:
            return
        with self.journal.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # otherwise the member was killed while it wrote, and had not committed that
                    yield json.loads(line)


def _record(report: dict[str, Any]) -> Record:
    headers = tuple((name, _bytes(part)) for name, part in report["headers"])
    # librdkafka's types of timestamps are Kafka's plus one.
    kind = {0: TIMESTAMP_CREATE_TIME}.get(report["timestamp_type"], 0)
    return Record(_bytes(report["key"]), _bytes(report["value"]), headers, report["timestamp"], kind)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
