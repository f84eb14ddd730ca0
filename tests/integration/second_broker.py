"""A second broker of a cluster, whose first one is the controller: the second is the one that can die alone."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import MappingProxyType

from tests.integration.kafka import KafkaCluster
from tests.integration.processes import START, ChildProcess, eventually, free_port


class SecondBroker:
    """Node 2, with the first one's properties but for those that are its own. `address` is that of its plain
    listener."""

    def __init__(
        self,
        cluster: KafkaCluster,
        listeners: Mapping[str, str],
        advertised: Mapping[str, str],
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Formats a folder of its own and starts. listeners, advertised: addresses by name, besides the plain one's.
        more: properties that are its own."""
        self._cluster = cluster
        folder = cluster.folder / "second"
        folder.mkdir()
        self.address = f"127.0.0.1:{free_port()}"
        self._properties = folder / "server.properties"
        usual = (cluster.folder / "server.properties").read_text().splitlines()
        overrides = {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": _listed({"PLAINTEXT": self.address, **listeners}),
            "advertised.listeners": _listed({"PLAINTEXT": self.address, **advertised}),
            "log.dirs": str(folder / "logs"),
            **more,
        }
        lines = [line for line in usual if line.partition("=")[0] not in overrides]
        self._properties.write_text("\n".join([*lines, *(f"{k}={v}" for k, v in overrides.items()), ""]))
        cluster.run_tool("kafka.tools.StorageTool", "format", "-t", cluster.cluster_id, "-c", str(self._properties))
        self._process = self._started()

    def start(self) -> None:
        """Start it again after it has ended; returns when both brokers are there."""
        self.launch()
        self.wait_until_up()

    def start_if_ended(self) -> None:
        """As a test may have left it."""
        if self.has_ended:
            self.start()

    def launch(self) -> None:
        """`start` without waiting."""
        assert self.has_ended, "only a broker that was stopped or killed is started again"
        self._process = self._started()

    def wait_until_up(self) -> None:
        """Returns when both brokers are there."""
        admin = self._cluster.admin()
        eventually("two brokers", lambda: len(admin.list_topics(timeout=5).brokers) == 2, timeout=START)

    @property
    def has_ended(self) -> bool:
        return self._process.exit_code is not None

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def stop(self) -> None:
        """It hands its leaderships over first."""
        self._process.signal(signal.SIGTERM)
        self._process.wait(60)

    def freeze(self) -> None:
        """Let it hang without closing its connections."""
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """End `freeze`."""
        self._process.signal(signal.SIGCONT)

    def _started(self) -> ChildProcess:
        command = self._cluster.java("kafka.Kafka", str(self._properties), heap="768m")
        return ChildProcess(command, log=self._cluster.folder / "second.log")


def _listed(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())
