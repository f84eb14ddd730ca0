"""Producers whose records interceptors drop, while TCP is cut in the middle of a Produce: between them and the mesh,
and between the mesh and the broker. The kept records are stored once and in order."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from tests.clients.bench import Client, producer_of
from tests.clients.producing import Feed
from tests.integration.cutter import Cutter, Place
from tests.integration.feeding import stored_upstream
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import SHORT_SESSIONS, KafkaCluster
from tests.integration.processes import ChildProcess, eventually, free_port
from tests.integration.relay_mesh import RelayMesh
from tests.integration.test_filtered_producers import FILTER, header, is_kept, stored

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
PLACES = [Place.REQUEST, Place.ANSWER] * 4
AT_ONCE = 60
"""Records between two cuts."""
SAMPLED = {"name": "half", "type": "sample", "topics": ["sampled*"], "on": ["produce"], "config": {"part": 0.5}}
OTHER_HOST = "127.0.0.2"


class Side(Enum):
    """The connections that are cut."""

    CLIENTS = "clients"
    BROKER = "broker"


def sides(*, deep: Side) -> list[Any]:
    """Parameters: both sides, one of them for `make test-deep`."""
    return [pytest.param(side, id=side.value, marks=[pytest.mark.deep] if side is deep else []) for side in Side]


class Bench:
    """A broker and a mesh, with cutters on either side of the mesh."""

    def __init__(self, folder: Path) -> None:
        self.cutters = {side: Cutter() for side in Side}
        behind = f"127.0.0.1:{free_port()}"
        seen = self.cutters[Side.BROKER].stand_in_for(behind)
        properties = {
            "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CUT://{behind},CONTROLLER://127.0.0.1:{{controller}}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},CUT://{seen}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CUT:PLAINTEXT",
            **SHORT_SESSIONS,
        }
        self.cluster = KafkaCluster("eu", kafka_jars(), folder / "kafka", properties)
        advertised = f"{OTHER_HOST}:{free_port()}"
        (folder / "mesh").mkdir()
        self.mesh = RelayMesh(
            folder / "mesh",
            seen,
            interceptors=[FILTER, SAMPLED],
            listener={"advertise": {"listen": advertised}},
            room=0,
        )
        node = self.mesh.address_of(1)
        clients = self.cutters[Side.CLIENTS]
        clients.stand_at(advertised, self.mesh.bootstrap_servers)
        clients.stand_at(f"{OTHER_HOST}:{node.rpartition(':')[2]}", node)
        self.address = advertised

    def end(self) -> None:
        self.mesh.kill()
        self.cluster.kill()
        for each in self.cutters.values():
            each.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("cut"))
    yield bench
    bench.end()


def send(producer: Producer, topic: str, begin: int, errors: list[object]) -> None:
    for number in range(begin, begin + AT_ONCE):
        producer.produce(
            topic,
            str(number).ljust(200),
            partition=0,
            headers=list(header(number)),
            on_delivery=lambda error, _: errors.append(error) if error is not None else None,
        )


def properties(bench: Bench) -> dict[str, object]:
    return {
        "bootstrap.servers": bench.address,
        "enable.idempotence": True,
        "batch.num.messages": 8,
        "linger.ms": 1,
        "retry.backoff.max.ms": 200,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }


@pytest.mark.parametrize("side", sides(deep=Side.BROKER))
def test_an_idempotent_producer_whose_connections_are_cut(bench: Bench, side: Side) -> None:
    topic, cutter, errors = f"regions-cut-{side.value}", bench.cutters[side], list[object]()
    bench.cluster.create_topic(topic, 1)
    producer = Producer(properties(bench))
    for number, place in enumerate(PLACES):
        before = cutter.cuts
        cutter.cut_next(place)
        send(producer, topic, number * AT_ONCE, errors)
        assert producer.flush(60) == 0
        assert cutter.cuts == before + 1
    assert not errors
    assert [number for _, number in stored(bench.cluster, topic)] == kept(len(PLACES) * AT_ONCE)


@pytest.mark.parametrize("side", sides(deep=Side.CLIENTS))
def test_transactions_whose_connections_are_cut(bench: Bench, side: Side) -> None:
    """Each transaction is committed in the end, or aborted and repeated. Readers see no record of an aborted one."""
    topic, cutter, errors = f"regions-cut-transactions-{side.value}", bench.cutters[side], list[object]()
    bench.cluster.create_topic(topic, 1)
    producer = Producer({**properties(bench), "transactional.id": topic})
    producer.init_transactions(60)
    for number, place in enumerate(PLACES):
        before = cutter.cuts
        cutter.cut_next(place)
        while True:
            producer.begin_transaction()
            try:
                send(producer, topic, number * AT_ONCE, errors)
                producer.commit_transaction(60)
            except KafkaException as problem:
                assert problem.args[0].txn_requires_abort(), problem
                producer.abort_transaction(60)
                continue
            break
        assert cutter.cuts == before + 1
    assert [number for _, number in stored(bench.cluster, topic)] == kept(len(PLACES) * AT_ONCE)


def kept(count: int) -> list[int]:
    return [number for number in range(count) if is_kept(number)]


@pytest.mark.deep
@pytest.mark.parametrize("side", Side, ids=lambda side: side.value)
@pytest.mark.parametrize("client", [Client.JAVA, Client.FRANZ], ids=lambda client: client.value)
def test_other_clients_whose_connections_are_cut(bench: Bench, side: Side, client: Client, tmp_path: Path) -> None:
    topic, count, keys = f"sampled-{client.value}-{side.value}", 4_000, 17
    bench.cluster.create_topic(topic, 3)
    cutter, output = bench.cutters[side], tmp_path / "producer.out"
    feed = Feed(bootstrap_servers=bench.address, client_id="fed", topic=topic, count=count, rate=400)
    producer = ChildProcess([*producer_of(client), feed.to_json()], log=tmp_path / "producer.log", stdout=output)
    try:
        for number, place in enumerate(PLACES):
            enough, cuts = (number + 1) / (len(PLACES) + 2) * count, cutter.cuts
            eventually("it goes on", lambda: output.read_bytes().count(b"\n") >= enough)  # noqa: B023
            cutter.cut_next(place)
            eventually("it was cut", lambda: cutter.cuts > cuts)  # noqa: B023
        assert producer.wait(180) == 0, producer.log_tail()
        assert output.read_bytes().count(b"\n") == count
    finally:
        producer.kill()
    found: dict[int, list[int]] = {}
    for each in stored_upstream(bench.cluster, topic):
        number = int(each.record.id.rpartition("-")[2])
        found.setdefault(number % keys, []).append(number)
    assert 0 < len(found) < keys, "a part of the keys is kept"
    assert found == {key: list(range(key, count, keys)) for key in found}
