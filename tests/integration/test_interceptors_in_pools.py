"""Interceptors in a pool of a real broker, with either engine: members' records, acknowledgements, and a failing
interceptor that stops only its partition."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition

from tests.integration.interceptor_workers import kill_workers
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_ports
from tests.integration.test_interceptors import CODECS, cards, produce, read
from tests.runtime.interception.installing import install
from tests.runtime.interception.misbehaving import Misbehaving

DEEP = [pytest.mark.long, pytest.mark.deep]

pytestmark = [
    pytest.mark.timeout(300),
]
ROOT = Path(__file__).parents[2]
MASK = {"name": "cards", "type": "mask", "topics": ["*"], "on": ["fetch"], "config": {"paths": ["card"]}}
ONLY_EU = {
    "name": "only-eu",
    "type": "filter",
    "topics": ["*"],
    "on": ["fetch"],
    "config": {"header": "region", "equals": "eu"},
}
Start = Callable[..., "PoolMesh"]


class PoolMesh(MeshProcess):
    """A pool of one cluster, whose topics keep their names."""

    def __init__(
        self,
        folder: Path,
        cluster: KafkaCluster,
        engine: str,
        interceptors: Sequence[Mapping[str, Any]],
        **more: object,
    ) -> None:
        """more: keys of the pool."""
        listen, coordinator = (f"127.0.0.1:{port}" for port in free_ports(2))
        self.bootstrap_servers = listen
        pool = {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"], "start": "earliest", **more}
        front = {
            "name": "front",
            "listen": listen,
            "coordinator": coordinator,
            "interceptors": [each["name"] for each in interceptors],
            "target": {"pool": pool},
        }
        configuration = {
            "clusters": [{"name": "eu", "bootstrap_servers": cluster.bootstrap_servers, "engine": engine}],
            "interceptors": list(interceptors),
            "virtual_clusters": [front],
        }
        super().__init__(folder, "pool", configuration)


@pytest.fixture(scope="module")
def cluster(kafka: KafkaCluster) -> KafkaCluster:
    return kafka


@pytest.fixture(params=["raw", pytest.param("librdkafka", marks=DEEP)])
def start(cluster: KafkaCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Start]:
    meshes: list[PoolMesh] = []

    def start(*interceptors: Mapping[str, Any], **more: object) -> PoolMesh:
        meshes.append(PoolMesh(tmp_path, cluster, request.param, interceptors, **more))
        return meshes[-1]

    yield start
    for mesh in meshes:
        mesh.kill()


def name_of(request: pytest.FixtureRequest) -> str:
    return "".join(each if each.isalnum() else "-" for each in request.node.name).strip("-")


class Member:
    """A member of a group. got: the values of its records."""

    def __init__(self, mesh: PoolMesh, group: str, *topics: str) -> None:
        own = {"bootstrap.servers": mesh.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        self.got: list[bytes | None] = []
        self._consumer = Consumer({**own, "enable.auto.commit": False})
        self._consumer.subscribe(list(topics))

    def until(self, condition: Callable[[], bool]) -> None:
        def more() -> bool:
            for message in self._consumer.consume(500, 0.5):
                assert message.error() is None, message.error()
                self.got.append(message.value())
            return condition()

        eventually("the records", more, timeout=60)

    def dies_of(self, value: bytes) -> bool:
        """Reads records one after the other, and commits each, until it leaves with this one in its hands; False: the
        record has not come."""
        for _ in range(100):
            message = self._consumer.poll(1.0)
            if message is None:
                break
            assert message.error() is None, message.error()
            self.got.append(message.value())
            if message.value() == value:
                self._consumer.close()
                return True
            self._consumer.commit(message=message, asynchronous=False)
        self._consumer.close()
        return False

    def close(self, *, commits: bool = True) -> None:
        if commits:
            self._consumer.commit(asynchronous=False)
        self._consumer.close()


def committed(cluster: KafkaCluster, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return found.offset or -1


@pytest.mark.smoke
@pytest.mark.parametrize("start", ["raw", "librdkafka"], indirect=True)
def test_members_get_what_interceptors_make_of_it(
    cluster: KafkaCluster, start: Start, request: pytest.FixtureRequest
) -> None:
    topics = {codec: f"{name_of(request)}-{codec}" for codec in CODECS}
    for codec, topic in topics.items():
        cluster.create_topic(topic, 1)
        assert set(produce(cluster.bootstrap_servers, topic, cards(100), **{"compression.type": codec})) == {None}
    member = Member(start(MASK), name_of(request), *topics.values())
    member.until(lambda: len(member.got) >= 500)
    member.close()
    masked = [{"id": number, "card": "****"} for number in range(100) for _ in CODECS]
    assert sorted((json.loads(each or b"") for each in member.got), key=lambda each: each["id"]) == masked
    for topic in topics.values():
        assert committed(cluster, name_of(request), topic) == 100


def test_what_is_dropped_counts_as_acknowledged(
    cluster: KafkaCluster, start: Start, request: pytest.FixtureRequest
) -> None:
    topic = name_of(request)
    cluster.create_topic(topic, 1)
    for region in (b"us", b"eu", b"us"):
        records = [(b"%s-%d" % (region, number), [("region", region)]) for number in range(50)]
        assert set(produce(cluster.bootstrap_servers, topic, records)) == {None}
    mesh = start(ONLY_EU)
    member = Member(mesh, topic, topic)
    member.until(lambda: len(member.got) >= 50)
    assert sorted(filter(None, member.got)) == sorted(b"eu-%d" % number for number in range(50))
    member.close()
    eventually("all is committed", lambda: committed(cluster, topic, topic) == 150, timeout=30)
    assert mesh.metric("kafka_mesh_interceptor_records_total", topic=topic, outcome="dropped") == 100


def test_one_that_fails_stands_and_others_go_on(
    cluster: KafkaCluster, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    install(tmp_path, f"{Misbehaving.__module__}:{Misbehaving.__name__}", monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), str(ROOT)]))
    stands, goes_on = f"{name_of(request)}-stands", f"{name_of(request)}-goes-on"
    for topic in (stands, goes_on):
        cluster.create_topic(topic, 1)
    once = {"name": "it", "type": "misbehaving", "topics": [stands], "on": ["fetch"], "retries": 0}
    assert produce(cluster.bootstrap_servers, stands, [(b"die", ())]) == [None]
    assert produce(cluster.bootstrap_servers, goes_on, [(b"%d" % each, ()) for each in range(100)]) == [None] * 100
    mesh = start(once)
    member = Member(mesh, topic, stands, goes_on)

    def failed() -> float:
        return mesh.metric("kafka_mesh_interceptor_records_total", topic=stands, outcome="failed")

    member.until(lambda: len(member.got) >= 100 and failed() >= 2)
    assert b"die" not in member.got
    member.close()
    assert committed(cluster, topic, stands) <= 0


def test_what_kills_its_members_is_found(cluster: KafkaCluster, start: Start, request: pytest.FixtureRequest) -> None:
    topic = name_of(request)
    cluster.create_topic(topic, 1)
    assert set(produce(cluster.bootstrap_servers, topic, cards(20), **{"compression.type": "lz4"})) == {None}
    mesh = start(MASK, dead_letters={"topic": "{topic}.dead", "create": True, "limit": 2})
    bad, got = b'{"id":7,"card":"****"}', set[bytes | None]()
    deaths = 0

    def is_found() -> bool:
        nonlocal deaths
        member = Member(mesh, topic, topic)
        deaths += member.dies_of(bad)
        got.update(member.got)
        return mesh.metric("kafka_mesh_dead_letters_total") > 0 and len(got) == 20

    eventually("it is given up", is_found, timeout=120)
    assert 2 <= deaths <= 8
    assert [value for _, value, _ in read(cluster.bootstrap_servers, f"{topic}.dead", 0)] == [bad]
    eventually("all is committed", lambda: committed(cluster, topic, topic) == 20, timeout=30)


def test_a_mesh_that_is_killed_shows_again_what_was_not_committed(
    cluster: KafkaCluster, start: Start, request: pytest.FixtureRequest
) -> None:
    topic = name_of(request)
    cluster.create_topic(topic, 1)
    assert set(produce(cluster.bootstrap_servers, topic, cards(100))) == {None}
    masked = {b'{"id":%d,"card":"****"}' % number for number in range(100)}
    for is_last in (False, True):
        mesh = start(MASK)
        member = Member(mesh, topic, topic)
        member.until(lambda member=member: len(member.got) >= 100)  # type: ignore[misc]
        assert set(member.got) == masked
        if not is_last:
            mesh.kill()
        member.close(commits=is_last)


@pytest.mark.long
def test_workers_that_are_killed_lose_nothing(
    cluster: KafkaCluster, start: Start, request: pytest.FixtureRequest
) -> None:
    topic = name_of(request)
    cluster.create_topic(topic, 4)
    mesh = start({**MASK, "retries": 3})
    member = Member(mesh, topic, topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for at in range(4):
        for number in range(at * 50, at * 50 + 50):
            producer.produce(topic, b'{"id":%d,"card":"4000"}' % number, partition=at)
        assert producer.flush(30) == 0
        member.until(lambda at=at: len(member.got) >= at * 50 + 50)  # type: ignore[misc]
        eventually("workers to kill", lambda: kill_workers(mesh) > 0, timeout=30)
    member.close()
    assert sorted(filter(None, member.got)) == sorted(b'{"id":%d,"card":"****"}' % number for number in range(200))


def test_share_members_get_the_same(cluster: KafkaCluster, start: Start, request: pytest.FixtureRequest) -> None:
    topic = name_of(request)
    cluster.create_topic(topic, 1)
    for codec in CODECS:
        places = [(region, at) for at in range(10) for region in (b"us", b"eu")]
        records = [(b'{"at":"%s-%d","card":"4000"}' % place, [("region", place[0])]) for place in places]
        assert set(produce(cluster.bootstrap_servers, topic, records, **{"compression.type": codec})) == {None}
    mesh = start(ONLY_EU, MASK, share={"auto_offset_reset": "earliest"})
    consumer = ShareConsumer({"bootstrap.servers": mesh.bootstrap_servers, "group.id": topic})
    consumer.subscribe([topic])
    got: list[bytes | None] = []

    def more() -> bool:
        for message in consumer.poll(0.5):
            assert message.error() is None, message.error()
            got.append(message.value())
        return len(got) >= 50

    eventually("the records", more, timeout=60)
    # The next poll accepts the records of the last one.
    eventually("all is committed", lambda: more() and committed(cluster, topic, topic) == 100, timeout=60)
    consumer.close()
    assert sorted(filter(None, got)) == sorted([b'{"at":"eu-%d","card":"****"}' % at for at in range(10)] * len(CODECS))


def test_leases_of_what_they_see_are_refused(
    cluster: KafkaCluster, start: Start, request: pytest.FixtureRequest
) -> None:
    topic = name_of(request)
    cluster.create_topic(topic, 1)
    mesh = start({**MASK, "topics": [topic]})
    body = {"virtual_cluster": "front", "group": "spark", "holder": "one", "topics": [topic], "ttl": 60, "wait": 1}
    asked = urllib.request.Request(
        f"{mesh.admin_url}/leases",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Sec-Fetch-Site": "none"},
    )
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(asked, timeout=30)
    assert refusal.value.code == 403
    assert json.load(refusal.value)["error"] == "intercepted_topic"
