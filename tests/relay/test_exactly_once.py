"""Programs that read, write and commit in one transaction: through a relay that is killed, each record counts once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients.building import streams_classes
from tests.integration.feeding import log_ends, stored_upstream
from tests.integration.jars import STREAMS, kafka_jars, missing_programs
from tests.integration.java import java
from tests.integration.kafka import CLIENT_PROPERTIES, SHORT_SESSIONS
from tests.integration.processes import ChildProcess, eventually
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import NODES, SeveralBrokers

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("exactly once through a relay"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
PLACES = [[*NODES[at:], *NODES[:at]] for at in range(len(NODES))]
COUNT, COPIED = 9_000, 3_000
"""Records in each of the three partitions, for Streams and for copies in small transactions."""
KEYS = 17
IN_A_TRANSACTION = 50
OF_GROUPS = {
    **SHORT_SESSIONS,
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    cluster = SeveralBrokers("eu", kafka_jars(), tmp_path_factory.mktemp("several"), more=OF_GROUPS)
    yield cluster
    cluster.end()


@pytest.fixture
def relay(cluster: SeveralBrokers, tmp_path: Path) -> Iterator[RelayMesh]:
    relay = RelayMesh(tmp_path, cluster.every_address, NODES)
    yield relay
    relay.kill()


def fill(cluster: SeveralBrokers, topic: str, count: int) -> None:
    """Writes numbers from 0 on in each partition, each with one of a few keys of that partition."""
    producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20})
    for number in range(count):
        for partition in range(len(PLACES)):
            producer.produce(topic, f"{partition}-{number}|", f"{partition}-{number % KEYS}", partition)
        producer.poll(0)
    assert producer.flush(60) == 0


class Copiers:
    """Kafka's TransactionalMessageCopier, one for each partition. One that ends too early is started again."""

    def __init__(self, cluster: SeveralBrokers, relay: RelayMesh, folder: Path) -> None:
        self._commands = [self._command(cluster, relay, partition) for partition in range(len(PLACES))]
        self._folder = folder
        self._running = [self._started(partition) for partition in range(len(PLACES))]

    def kill(self, partition: int) -> None:
        """kill -9; then starts it again."""
        self._running[partition].kill()
        self._running[partition] = self._started(partition)

    def have_ended(self) -> bool:
        """True if all have copied all records."""
        for partition, each in enumerate(self._running):
            if each.exit_code not in (0, None):
                self._running[partition] = self._started(partition)
        return all(each.exit_code == 0 for each in self._running)

    def end(self) -> None:
        for each in self._running:
            each.kill()

    def _started(self, partition: int) -> ChildProcess:
        return ChildProcess(self._commands[partition], log=self._folder / f"copier-{partition}.log")

    @staticmethod
    def _command(cluster: SeveralBrokers, relay: RelayMesh, partition: int) -> Sequence[str]:
        return cluster.java(
            "org.apache.kafka.tools.TransactionalMessageCopier",
            *("--broker-list", relay.bootstrap_servers, "--transactional-id", f"copier-{partition}"),
            *("--consumer-group", "copiers", "--input-topic", "read", "--input-partition", str(partition)),
            *("--output-topic", "written", "--transaction-size", str(IN_A_TRANSACTION), "--enable-random-aborts"),
        )


@pytest.mark.deep
def test_transactional_message_copier(cluster: SeveralBrokers, relay: RelayMesh, tmp_path: Path) -> None:
    """With random aborts, kill -9 of the mesh, and of each copier."""
    for topic in ("read", "written"):
        cluster.create_topic(topic, len(PLACES), places=PLACES)
    fill(cluster, "read", COPIED)
    copiers = Copiers(cluster, relay, tmp_path)
    try:
        for step in range(1, 4):
            enough = step * len(PLACES) * COPIED // 5
            eventually("copies", lambda: sum(log_ends(cluster, "written").values()) > enough, timeout=90)  # noqa: B023
            copiers.kill(step - 1)
            relay.kill()
            relay.restart()
        eventually("all is copied", copiers.have_ended, timeout=180)
    finally:
        copiers.end()
    found = in_partitions(cluster, "written")
    for partition in range(len(PLACES)):
        assert found[partition] == [f"{partition}-{number}" for number in range(COPIED)]


def in_partitions(cluster: SeveralBrokers, topic: str) -> dict[int, list[str]]:
    """The ids of the committed records, in order."""
    found: dict[int, list[str]] = defaultdict(list)
    for each in sorted(stored_upstream(cluster, topic), key=lambda each: each.offset):
        found[each.partition].append(each.record.id)
    return found


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.deep), "streams"])
def test_streams(cluster: SeveralBrokers, relay: RelayMesh, protocol: str, tmp_path: Path) -> None:
    """Each record of a key is counted once, in order, while mesh and application are killed with kill -9."""
    source, sink = f"{protocol}-read", f"{protocol}-counts"
    for topic in (source, sink):
        cluster.create_topic(topic, len(PLACES), places=PLACES)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    arguments = (relay.bootstrap_servers, f"{protocol}-application", protocol, source, sink, str(tmp_path / "state"))
    command = java(kafka_jars(STREAMS), "Counts", *arguments, classes=streams_classes(), options=[quiet])
    application = ChildProcess(command, log=tmp_path / "application.log")
    part = COUNT // 3

    def until_counted(count: int) -> None:
        def is_counted() -> bool:
            assert application.exit_code is None, application.log_tail()
            return sum(map(len, in_partitions(cluster, sink).values())) >= count * len(PLACES)

        eventually(f"{count} of each partition are counted", is_counted, timeout=120, interval=1)

    try:
        for step in range(3):
            fill(cluster, source, part)
            until_counted(step * part + part // 3)
            relay.kill()
            relay.restart()
            if step == 1:
                application.kill()
                application = ChildProcess(command, log=tmp_path / "application.log")
        until_counted(3 * part)
    finally:
        application.kill()
    counted: dict[bytes | None, list[int]] = defaultdict(list)
    for each in sorted(stored_upstream(cluster, sink), key=lambda each: (each.partition, each.offset)):
        counted[each.record.key].append(int(each.record.value or b""))
    assert len(counted) == KEYS * len(PLACES)
    for numbers in counted.values():
        assert numbers == list(range(1, len(numbers) + 1))
    assert sum(map(len, counted.values())) == 3 * part * len(PLACES)
