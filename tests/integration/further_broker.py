"""A further broker of a cluster whose first broker is the controller: the further one can die alone."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import MappingProxyType

from tests.integration.kafka import KafkaCluster
from tests.integration.memory_folders import make_folder
from tests.integration.processes import START, ChildProcess, eventually, free_port


class FurtherBroker:
    """A node with the first one's properties but for those that are its own. `address`: of its plain listener."""

    def __init__(
        self,
        cluster: KafkaCluster,
        listeners: Mapping[str, str] = MappingProxyType({}),
        advertised: Mapping[str, str] = MappingProxyType({}),
        more: Mapping[str, str] = MappingProxyType({}),
        node: int = 2,
        heap: str = "768m",
    ) -> None:
        """Starts the broker in its own folder. listeners, advertised: addresses by name, besides the plain one. more:
        further properties."""
        self._cluster = cluster
        self._node = node
        self._heap = heap
        folder = cluster.folder / f"node-{node}"
        folder.mkdir()
        self.address = f"127.0.0.1:{free_port()}"
        self._properties = folder / "server.properties"
        usual = (cluster.folder / "server.properties").read_text().splitlines()
        overrides = {
            **cluster.of_further_node(node),
            "listeners": _listed({"PLAINTEXT": self.address, **listeners}),
            "advertised.listeners": _listed({"PLAINTEXT": self.address, **advertised}),
            "log.dirs": str(folder / "logs"),
            **more,
        }
        lines = [line for line in usual if line.partition("=")[0] not in overrides]
        self._properties.write_text("\n".join([*lines, *(f"{k}={v}" for k, v in overrides.items()), ""]))
        make_folder(folder / "logs")
        if identity := cluster.identity_of(node):
            # All that a broker needs from its formatting tool, in a second of CPU.
            folder.joinpath("logs", "meta.properties").write_text(identity)
        self._process = self._started()

    def start(self) -> None:
        """Starts it again after it has ended; returns when the cluster has it."""
        self.launch()
        self.wait_until_up()

    def start_if_ended(self) -> None:
        """Starts the broker again if a test left it stopped."""
        if self.has_ended:
            self.start()

    def launch(self) -> None:
        """`start` without waiting."""
        assert self.has_ended, "only a broker that was stopped or killed is started again"
        self._process = self._started()

    def wait_until_up(self) -> None:
        """Returns when the cluster, or the broker itself, reports it."""
        admin = self._cluster.admin()
        eventually(f"broker {self._node}", lambda: self._node in admin.list_topics(timeout=5).brokers, timeout=START)

    @property
    def pid(self) -> int:
        """The id of the running process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.exit_code is not None

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def stop(self) -> None:
        """Stops it after it has handed its leaderships over."""
        self._process.signal(signal.SIGTERM)
        self._process.wait(60)

    def freeze(self) -> None:
        """Makes it hang without closing its connections."""
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Ends `freeze`."""
        self._process.signal(signal.SIGCONT)

    def _started(self) -> ChildProcess:
        command = self._cluster.java("kafka.Kafka", str(self._properties), heap=self._heap)
        return ChildProcess(command, log=self._cluster.folder / f"node-{self._node}.log")


def _listed(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())
