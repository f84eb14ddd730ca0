"""Brokers of earlier versions, with ZooKeeper, on the same Java as the newest one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.integration.jars import kafka_jars
from tests.integration.java import java
from tests.integration.kafka import KafkaCluster
from tests.integration.memory_folders import make_folder
from tests.integration.processes import ChildProcess, free_port

_PROPERTIES = """broker.id=1
broker.id.generation.enable=false
listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={logs}
log.retention.ms=-1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=2097152
"""

_LOG4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1} %m%n
"""


class ZooKeeper:
    """One node for the clusters of a version, each with its own path."""

    def __init__(self, version: str, folder: Path) -> None:
        """Starts it in `folder` (empty). Brokers wait for it themselves."""
        folder.mkdir(parents=True)
        make_folder(folder / "data")
        self.version = version
        self.address = f"127.0.0.1:{free_port()}"
        self.log4j = folder / "log4j.properties"
        self.log4j.write_text(_LOG4J)
        self._process = ChildProcess(
            java(
                kafka_jars(version),
                "org.apache.zookeeper.server.ZooKeeperServerMain",
                *(self.address.partition(":")[2], str(folder / "data")),
                heap="128m",
                options=self.java_options(),
            ),
            log=folder / "zookeeper.log",
        )

    def java_options(self) -> Sequence[str]:
        """The brokers' options, too: the program's own way of managing its logs would need another library."""
        return f"-Dlog4j.configuration={self.log4j.as_uri()}", "-Dzookeeper.jmx.log4j.disable=true"

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()


class OldKafkaCluster(KafkaCluster):
    """One broker of an earlier version."""

    def __init__(self, name: str, zookeeper: ZooKeeper, folder: Path, more: Mapping[str, str] | None = None) -> None:
        """Returns when the broker answers; `more` as for KafkaCluster."""
        self._zookeeper = zookeeper
        more = {"zookeeper.connect": f"{zookeeper.address}/{name}", **(more or {})}
        super().__init__(name, kafka_jars(zookeeper.version), folder, more=more)

    def of_further_node(self, node: int) -> Mapping[str, str]:
        return {"broker.id": str(node)}

    def identity_of(self, node: int) -> str:
        return ""  # its tool writes that itself

    @property
    def _usual_properties(self) -> str:
        return _PROPERTIES

    def _java_options(self) -> Sequence[str]:
        return self._zookeeper.java_options()

    def _format(self) -> str:
        return ""  # it finds an id itself
