"""Unmodified consumers as processes, with their reports: confluent-kafka, Kafka's Java client, kcat."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from tests.integration.consumer import ConsumerOptions
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import ChildProcess, eventually
from tests.integration.records import Delivery, Headers, Record, View


class Member(ABC):
    """A consumer process. Its reports are read from its output on each call."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self._output = folder / f"{name}.out"
        self.process = ChildProcess(command, log=folder / f"{name}.log", stdout=self._output)
        self._deliveries: list[Delivery] = []
        self._settled: list[Delivery] = []
        self._open = 0
        self._read = 0
        self._events: Counter[str] = Counter()

    @property
    def deliveries(self) -> list[Delivery]:
        """Every record it has shown so far, in order."""
        self._catch_up()
        return self._deliveries

    @property
    def settled(self) -> list[Delivery]:
        """Records that it had shown before an answered commit, with nothing in between; for a member that commits after
        each poll. It may not have committed records shown before it joined again."""
        self._catch_up()
        return self._settled

    @property
    def events(self) -> Counter[str]:
        """The number of its reports by kind: `assigned`, `revoked`, `lost`, `committed`, `commit failed`, `error`."""
        self._catch_up()
        return self._events

    def close(self, timeout: float = 20.0) -> None:
        """SIGTERM: it commits and leaves. Raises AssertionError if it does not end, or fails."""
        self.process.signal(signal.SIGTERM)
        code = self.process.wait(timeout)
        assert code in self._clean_exits, f"{self.name} ended with {code}; its log ends:\n{self.process.log_tail()}"

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def until_assigned(self) -> None:
        """Returns when it got partitions."""
        eventually(f"{self.name} is assigned partitions", lambda: self.events["assigned"])

    def until_delivered(self, count: int) -> None:
        """Returns when it has shown this many records."""
        eventually(f"{self.name} shows {count} records", lambda: len(self.deliveries) >= count)

    def until_committed(self, count: int) -> None:
        """Returns when it has reported this many commits."""
        eventually(f"{self.name} commits {count} times", lambda: self.events["committed"] >= count)

    def assert_running(self) -> None:
        """Raises AssertionError if it has ended by itself."""
        code = self.process.exit_code
        assert code is None, f"{self.name} ended by itself with {code}; its log ends:\n{self.process.log_tail()}"

    def _note(self, event: str) -> None:
        self._events[event] += 1
        if event == "committed":
            self._settled += self._deliveries[self._open :]
        if event != "error":
            self._open = len(self._deliveries)

    _clean_exits: frozenset[int] = frozenset({0})

    @abstractmethod
    def _parse(self, data: bytes) -> int:
        """Notes the reports in `data`; returns the number of bytes of whole lines."""

    def _catch_up(self) -> None:
        with self._output.open("rb") as output:
            output.seek(self._read)
            self._read += self._parse(output.read())


class ConfluentMember(Member):
    """`tests.integration.consumer`."""

    def __init__(self, name: str, options: ConsumerOptions, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.integration.consumer", options.to_json()]
        super().__init__(name, command, folder)

    def _parse(self, data: bytes) -> int:
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            report = json.loads(line)
            if report["event"] != "record":
                self._note(report["event"])
                continue
            place = (self.name, report["partition"], report["offset"])
            self._deliveries.append(Delivery(report["id"], View.WHOLE, report["fingerprint"], *place))
        return whole


class JavaMember(Member):
    """Kafka's own VerifiableConsumer: subscribe(), and a synchronous commit after each poll."""

    # 128 + SIGTERM is how a JVM ends that was asked to.
    _clean_exits = frozenset({0, 143})
    _EVENTS: ClassVar = {
        "partitions_assigned": "assigned",
        "partitions_revoked": "revoked",
        "partitions_lost": "lost",
        "offsets_committed": "committed",
    }

    def __init__(
        self, name: str, kafka: KafkaCluster, bootstrap_servers: str, group: str, topic: str, folder: Path
    ) -> None:
        """kafka: the one whose jars to use."""
        arguments = (
            *("--bootstrap-server", bootstrap_servers, "--group-id", group, "--topic", topic),
            *("--reset-policy", "earliest", "--verbose"),
        )
        super().__init__(name, kafka.java("org.apache.kafka.tools.VerifiableConsumer", *arguments), folder)

    def _parse(self, data: bytes) -> int:
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            report = json.loads(line)
            if event := self._EVENTS.get(report["name"]):
                self._note("commit failed" if event == "committed" and not report["success"] else event)
            elif report["name"] == "record_data":
                key, value = (None if part is None else part.encode() for part in (report["key"], report["value"]))
                record = Record(key, value, (), 0)
                place = (self.name, report["partition"], report["offset"])
                self._deliveries.append(Delivery(record.id, View.JAVA, record.fingerprint(View.JAVA), *place))
        return whole


class KcatMember(Member):
    """`kcat -G`, with lengths before keys and values, which may so contain any bytes."""

    _FORMAT = r"%p %o %T %K %S %k%s%h\n"
    _PREFIX = re.compile(rb"(\d+) (\d+) (-?\d+) (-?\d+) (-?\d+) ")
    _REBALANCE = re.compile(r"^% Group \S+ rebalanced.*: (assigned|revoked)", re.MULTILINE)

    def __init__(self, name: str, arguments: Sequence[str], folder: Path) -> None:
        """arguments: all but the format, e.g. `-b ADDRESS -G GROUP TOPIC`."""
        if shutil.which("kcat") is None:
            pytest.skip("kcat is not installed")
        super().__init__(name, ["kcat", "-u", "-f", self._FORMAT, *arguments], folder)

    @classmethod
    def subscribed(cls, name: str, bootstrap_servers: str, group: str, topic: str, folder: Path) -> KcatMember:
        """A member of a group, subscribed to its topic."""
        start = ("-X", "auto.offset.reset=earliest")
        return cls(name, ["-b", bootstrap_servers, *start, "-G", group, topic], folder)

    def _catch_up(self) -> None:
        super()._catch_up()
        self._events = Counter(self._REBALANCE.findall(self.process.log.read_text(errors="replace")))

    def _parse(self, data: bytes) -> int:
        whole = 0
        while prefix := self._PREFIX.match(data, whole):
            partition, offset, timestamp, key_length, value_length = map(int, prefix.groups())
            middle = prefix.end() + max(key_length, 0)
            tail = middle + max(value_length, 0)
            end = data.find(b"\n", tail)
            if end < 0:
                break
            key = data[prefix.end() : middle] if key_length >= 0 else None
            value = data[middle:tail] if value_length >= 0 else None
            record = Record(key, value, _kcat_headers(data[tail:end]), timestamp)
            fingerprint = record.fingerprint(View.KCAT)
            self._deliveries.append(Delivery(record.id, View.KCAT, fingerprint, self.name, partition, offset))
            whole = end + 1
        return whole


def _kcat_headers(text: bytes) -> Headers:
    if not text:
        return ()
    pairs = (header.partition(b"=") for header in text.split(b","))
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)
