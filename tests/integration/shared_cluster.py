"""Clusters that one process of a test run starts, and that all of its test processes use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException

from tests.integration.jars import kafka_jars
from tests.integration.kafka import KafkaCluster


class HandedOutCluster(KafkaCluster):
    """A cluster for other processes. It starts without waiting."""

    def wait_until_up(self) -> None:
        """Returns at once: the other processes wait."""

    def handed_out(self) -> dict[str, str]:
        """All that another process must know of it."""
        return {"name": self.name, "bootstrap_servers": self.bootstrap_servers, "folder": str(self.folder)}


class SharedCluster(KafkaCluster):
    """A cluster of another process. No test may stop it: a test that kills or freezes brokers starts its own."""

    def __init__(self, handed_out: Mapping[str, str]) -> None:
        """handed_out: by `HandedOutCluster`. Returns when the broker answers."""
        self.name = handed_out["name"]
        self.bootstrap_servers = handed_out["bootstrap_servers"]
        self.folder = Path(handed_out["folder"])
        self._jars = kafka_jars()
        self._is_measured = False
        self._prober = self.admin()
        self.wait_until_up()

    def is_up(self, timeout: float = 1.0) -> bool:
        try:
            return bool(self._prober.list_topics(timeout=timeout).brokers)
        except KafkaException:
            return False

    def revive(self) -> None:
        """Does nothing: it runs."""

    def stop(self) -> None:
        raise AssertionError(f"cluster {self.name} belongs to all test processes: start another one")

    kill = freeze = thaw = launch = restart = stop
