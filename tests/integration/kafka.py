"""A real Apache Kafka: one KRaft node in its own folder that a test can stop, kill, freeze and start again."""

from __future__ import annotations

import base64
import logging
import signal
import subprocess
import time
import uuid
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.integration.java import java
from tests.integration.memory_folders import make_folder
from tests.integration.processes import START, ChildProcess, count_start, eventually, free_port

_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
log.retention.ms=-1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=18000
broker.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=2097152
"""

# Clients' errors about a broker that a test killed on purpose would bury the test's own output.
_SILENT = logging.getLogger("tests.kafka.client")
_SILENT.disabled = True
CLIENT_PROPERTIES: Mapping[str, Any] = {
    "logger": _SILENT,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}

SHORT_SESSIONS: Mapping[str, str] = {"broker.session.timeout.ms": "3000"}
"""Server properties for tests that kill brokers. A broker that was killed may register again when its session has
expired. Other brokers keep theirs through a pause of the machine."""
_COORDINATOR_WITHIN = 60.0
"""Seconds in which a broker makes `__consumer_offsets` and loads it."""
_COORDINATOR_NOT_READY = frozenset(
    {
        KafkaError._TIMED_OUT,  # a request that began while its coordinator was busy once waited in vain
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)

_FORMATTED: dict[Hashable, tuple[str, Mapping[Path, bytes]]] = {}
"""The id and the files of the first formatted folder of each kind of cluster. Formatting another one alike takes more
than a second of CPU, and differs in the id."""


class KafkaCluster:
    """One broker, which is its own controller, on loopback ports that stay the same over restarts."""

    _replicas = 1
    """Replicas of a topic's partitions."""
    _heap = "768m"
    """Memory of the broker's process."""

    def __init__(
        self,
        name: str,
        jars: Path,
        folder: Path,
        more: Mapping[str, str] | None = None,
        *,
        is_measured: bool = False,
    ) -> None:
        """Formats `folder` (empty) and starts; returns when the broker answers.

        more: server properties, which go before the usual ones; `{port}` and `{controller}` stand for those ports.
        is_measured: Java compiles it as well as it can. Else it starts with two thirds of the work.
        """
        self.name = name
        self.folder = folder
        self._jars = jars
        self._port = free_port()
        self.bootstrap_servers = f"127.0.0.1:{self._port}"
        folder.mkdir(parents=True, exist_ok=True)
        make_folder(folder / "logs")
        self._properties = folder / "server.properties"
        self._controller = free_port()
        self._more: Mapping[str, str] = more or {}
        self._is_measured = is_measured
        self.configure({})
        self._prober = self.admin()
        self.cluster_id = self._format()
        self._process = self._start()
        self.wait_until_up()

    def configure(self, more: Mapping[str, str]) -> None:
        """Further server properties, which go before all others, from the next start on."""
        ports = {"port": self._port, "controller": self._controller}
        lines = [f"{name}={value.format(**ports)}" for name, value in {**self._more, **more}.items()]
        usual = self._usual_properties.format(**ports, logs=self.folder / "logs")
        self._properties.write_text(usual + "".join(f"{line}\n" for line in lines))

    def java(self, class_name: str, *arguments: str, heap: str = "256m") -> list[str]:
        """The command line that runs a class of Kafka's jars."""
        is_measured = self._is_measured and class_name == "kafka.Kafka"
        options = self._java_options()
        return java(self._jars, class_name, *arguments, heap=heap, options=options, is_measured=is_measured)

    def run_tool(self, class_name: str, *arguments: str, timeout: float = START) -> str:
        """Runs one of Kafka's command-line tools; returns its standard output. Raises RuntimeError if it fails."""
        command = self.java(class_name, *arguments)
        count_start(command)
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            raise RuntimeError(f"{class_name} {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def stop(self) -> None:
        """Shuts it down cleanly."""
        self._process.signal(signal.SIGTERM)
        self._process.wait(30)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def restart(self) -> None:
        """Starts it again on the same folder and ports, after `kill` or `stop`; returns when the broker answers."""
        self.launch()
        self.wait_until_up()

    def launch(self) -> None:
        """`restart` without waiting."""
        assert self._process.exit_code is not None, "only a broker that was stopped or killed is started again"
        self._process = self._start()

    def revive(self) -> None:
        """Makes it run again after anything that a test has done to it. If it had to start, returns when the broker
        answers."""
        if self._process.exit_code is None:
            self.thaw()
        else:
            self.restart()

    @property
    def pid(self) -> int:
        """The id of the running process."""
        return self._process.pid

    def freeze(self) -> None:
        """Makes it hang without closing its connections."""
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Ends `freeze`."""
        self._process.signal(signal.SIGCONT)

    def admin(self) -> AdminClient:
        """A new admin client of this cluster."""
        return AdminClient({**CLIENT_PROPERTIES, "bootstrap.servers": self.bootstrap_servers})

    def create_topic(
        self,
        name: str,
        partitions: int,
        config: Mapping[str, str] | None = None,
        places: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Creates a topic; returns when every partition has a leader. places: the nodes of each partition's replicas;
        None: wherever the cluster puts them."""
        admin = self.admin()
        where: dict[str, Any] = (
            {"replication_factor": self._replicas} if places is None else {"replica_assignment": places}
        )
        topic = NewTopic(name, num_partitions=partitions, config=dict(config or {}), **where)

        def is_created() -> bool:
            try:
                admin.create_topics([topic])[name].result(30)
            except KafkaException as failure:
                # On a busy machine the controller takes a broker with a late heartbeat for dead, and librdkafka repeats
                # a request whose answer is late.
                if failure.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return True
                if failure.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                    raise
                return False
            return True

        eventually(f"creation of {name}", is_created, interval=0.2)

        def is_led() -> bool:
            seen = admin.list_topics(name, timeout=5).topics[name].partitions
            return len(seen) == partitions and all(partition.leader >= 0 for partition in seen.values())

        eventually(f"leaders of {name}", is_led)

    def set_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Changes the configuration of a topic."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        admin = self.admin()
        admin.incremental_alter_configs([resource])[resource].result(30)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Gives a topic more partitions, this many in all."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; returns when the cluster no longer lists it."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(30)
        eventually(f"deletion of {name}", lambda: name not in admin.list_topics(timeout=5).topics)

    def committed(self, group: str, topic: str | None = None) -> dict[tuple[str, int], int]:
        """The group's committed offsets, of one topic or of all: (topic, partition) -> next offset to read. Raises
        KafkaException."""
        # Not the admin client: with a coordinator that is not ready it ends the test run with a segmentation fault
        # (mesh/upstream/positions.py).
        asking = {**CLIENT_PROPERTIES, "bootstrap.servers": self.bootstrap_servers, "group.id": group}
        # A reader of committed offsets waits for open transactions of a killed process (KIP-447): a minute.
        asking["isolation.level"] = "read_uncommitted"
        deadline = time.monotonic() + _COORDINATOR_WITHIN
        while True:
            consumer = Consumer({**asking, "enable.auto.commit": False})
            try:
                described = (
                    consumer.list_topics(timeout=30) if topic is None else consumer.list_topics(topic, timeout=30)
                )
                topics = described.topics
                places = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
                answers = consumer.committed(places, timeout=20)
                break
            except KafkaException as failure:
                if time.monotonic() > deadline or failure.args[0].code() not in _COORDINATOR_NOT_READY:
                    raise
            finally:
                consumer.close()
            time.sleep(0.2)
        return {(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}

    def group_members(self, group: str) -> int:
        """The number of members of the group; 0 for a group that does not exist."""
        admin = self.admin()
        try:
            return len(admin.describe_consumer_groups([group])[group].result(30).members)
        except KafkaException as failure:
            if failure.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            raise

    def of_further_node(self, node: int) -> Mapping[str, str]:
        """Server properties of a broker that is another node of this cluster."""
        return {"process.roles": "broker", "node.id": str(node)}

    def identity_of(self, node: int) -> str:
        """The content of a new node's folder before its first start; empty for none."""
        return f"version=1\ncluster.id={self.cluster_id}\nnode.id={node}\n"

    @property
    def _usual_properties(self) -> str:
        """The server's properties; `{port}`, `{controller}` and `{logs}` stand for those."""
        return _PROPERTIES

    def _java_options(self) -> Sequence[str]:
        return ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)

    def _format(self) -> str:
        """Formats the folder, before the first start; returns the id of the cluster."""
        cluster_id = _cluster_id()
        logs = self.folder / "logs"
        kind = (type(self), self._jars, tuple(sorted(self._more.items())))
        if kind not in _FORMATTED:
            self.run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._properties))
            files = [file for file in logs.rglob("*") if file.is_file()]
            _FORMATTED[kind] = (cluster_id, {file.relative_to(logs): file.read_bytes() for file in files})
        else:
            known, contents = _FORMATTED[kind]
            for name, content in contents.items():
                (logs / name).parent.mkdir(parents=True, exist_ok=True)
                (logs / name).write_bytes(content.replace(known.encode(), cluster_id.encode()))
        return cluster_id

    def _start(self) -> ChildProcess:
        command = self.java("kafka.Kafka", str(self._properties), heap=self._heap)
        return ChildProcess(command, log=self.folder / "broker.log")

    def wait_until_up(self) -> None:
        """Returns when a metadata request is answered with a broker in it."""
        eventually(f"broker {self.name} answers", self.is_up, timeout=START)

    def is_up(self, timeout: float = 1.0) -> bool:
        """True if it answers within this many seconds; raises RuntimeError if its process has ended."""
        if self._process.exit_code is not None:
            raise RuntimeError(f"the broker {self.name} ended; its log ends:\n{self._process.log_tail()}")
        try:
            return bool(self._prober.list_topics(timeout=timeout).brokers)
        except KafkaException:
            return False


def _cluster_id() -> str:
    """Sixteen random bytes in the letters of Kafka's ids, never beginning like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
