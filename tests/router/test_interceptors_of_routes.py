"""Interceptors of routes, on real clusters: they run behind those of the virtual cluster, and use the names behind the
route, with each kind of router in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_port, free_ports
from tests.integration.test_interceptors import cards, produce, read
from tests.router.pass_through import install_pass_through
from tests.router.union_mesh import STRIPPED

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
    pytest.mark.timeout(300),
]
MASKED = [b'{"id":%d,"card":"****"}' % number for number in range(10)]
STORED = [value for value, _ in cards(10)]


POOL = {"topics": [{"prefix": "cards", "cluster": "eu"}], "groups": ["*"], "start": "earliest"}


def stamp(name: str) -> dict[str, Any]:
    """Stamps produced records with the interceptor that saw them, and the name of their topic there."""
    config = {"headers": {name: "{topic}"}}
    return {"name": name, "type": "stamp", "topics": ["*"], "on": ["produce"], "config": config}


@pytest.fixture(scope="module")
def address(kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Clients called `direct` come to eu, those called `union` to both, those called `shared` to a pool of eu, and
    others to a router that answers each request, and sends all requests to us."""
    folder, patch = tmp_path_factory.mktemp("routes"), pytest.MonkeyPatch()
    install_pass_through(folder, patch)
    leaves = ("direct", "union/eu", "union/us", "through/eu", "through/us")
    ports = free_ports(2 * len(leaves))
    listen, coordinator = (f"127.0.0.1:{free_port()}" for _ in range(2))
    mask = {"name": "cards", "type": "mask", "topics": ["cards*"], "on": ["fetch"], "config": {"paths": ["card"]}}
    configuration = {
        "clusters": [
            {"name": name, "bootstrap_servers": each.bootstrap_servers}
            for name, each in zip(("eu", "us"), kafka_pair, strict=True)
        ],
        "interceptors": [mask, *map(stamp, ("front", "to-direct", "to-union", "to-us", "to-through"))],
        "routers": [
            router(
                "who",
                "clients",
                {"rules": [rule(each) for each in ("direct", "union", "shared")], "default": "through"},
                route("direct", 0, {"cluster": "eu"}, ["to-direct"]),
                route("union", 1, {"router": "regions"}, ["to-union"]),
                route("through", 2, {"router": "r"}, []),
                route("shared", 3, {"pool": POOL}, ["cards"]),
            ),
            router(
                "regions",
                "topics",
                STRIPPED,
                route("eu", 0, {"cluster": "eu"}, []),
                route("us", 1, {"cluster": "us"}, ["to-us", "cards"]),
            ),
            router(
                "r",
                "pass-through",
                {"route": "us"},
                route("eu", 0, {"cluster": "eu"}, []),
                route("us", 1, {"cluster": "us"}, ["to-through", "cards"]),
            ),
        ],
        "virtual_clusters": [
            {
                "name": "door",
                "listen": listen,
                "coordinator": coordinator,
                "nodes": {"ports": f"{ports[0]}-{ports[-1]}", "ids": {each: ["0-1"] for each in leaves}},
                "interceptors": ["front"],
                "target": {"router": "who"},
            }
        ],
    }
    mesh = MeshProcess(folder, "door", configuration)
    yield listen
    mesh.kill()
    patch.undo()


def router(name: str, type: str, config: Any, *routes: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "type": type, "config": config, "routes": list(routes)}


def route(name: str, id: int, target: dict[str, Any], interceptors: list[str]) -> dict[str, Any]:
    return {"name": name, "id": id, "target": target, "interceptors": interceptors}


def rule(name: str) -> dict[str, Any]:
    return {"client_ids": [name], "route": name}


def headers(cluster: KafkaCluster, topic: str) -> list[tuple[str, bytes | None]]:
    """The headers of the first stored record."""
    return read(cluster.bootstrap_servers, topic, 9)[0][2]


def test_a_cluster_behind_a_choice(kafka_pair: tuple[KafkaCluster, KafkaCluster], address: str) -> None:
    kafka_pair[0].create_topic("cards-direct", 1)
    assert set(produce(address, "cards-direct", cards(10), **{"client.id": "direct"})) == {None}
    expected = [("front", b"cards-direct"), ("to-direct", b"cards-direct")]
    assert headers(kafka_pair[0], "cards-direct") == expected
    found = read(address, "cards-direct", 9, **{"client.id": "direct"})
    assert [value for _, value, _ in found] == STORED


def test_a_union_behind_a_choice(kafka_pair: tuple[KafkaCluster, KafkaCluster], address: str) -> None:
    eu, us = kafka_pair
    for cluster in (eu, us):
        cluster.create_topic("cards-union", 1)
    for topic in ("cards-union", "us.cards-union"):
        assert set(produce(address, topic, cards(10), **{"client.id": "union"})) == {None}
    assert headers(eu, "cards-union") == [("front", b"cards-union"), ("to-union", b"cards-union")]
    expected = [("front", b"us.cards-union"), ("to-union", b"us.cards-union"), ("to-us", b"cards-union")]
    assert headers(us, "cards-union") == expected
    found = read(address, "cards-union", 9, **{"client.id": "union"})
    assert [value for _, value, _ in found] == STORED, "only the route to us masks"
    found = read(address, "us.cards-union", 9, **{"client.id": "union"})
    assert [value for _, value, _ in found] == MASKED


def test_a_router_of_requests_behind_a_choice(kafka_pair: tuple[KafkaCluster, KafkaCluster], address: str) -> None:
    kafka_pair[1].create_topic("cards-through", 1)
    assert set(produce(address, "cards-through", cards(10), **{"client.id": "anybody"})) == {None}
    expected = [("front", b"cards-through"), ("to-through", b"cards-through")]
    assert headers(kafka_pair[1], "cards-through") == expected
    found = read(address, "cards-through", 9, **{"client.id": "anybody"})
    assert [value for _, value, _ in found] == MASKED


def test_a_pool_behind_a_choice(kafka_pair: tuple[KafkaCluster, KafkaCluster], address: str) -> None:
    kafka_pair[0].create_topic("cards-shared", 1)
    assert set(produce(kafka_pair[0].bootstrap_servers, "cards-shared", cards(10))) == {None}
    own = {"bootstrap.servers": address, "group.id": "shared", "client.id": "shared", "auto.offset.reset": "earliest"}
    consumer, got = Consumer(own), list[bytes | None]()
    consumer.subscribe(["cards-shared"])

    def more() -> bool:
        got.extend(each.value() for each in consumer.consume(100, 0.5) if each.error() is None)  # it may be new
        return len(got) >= 10

    eventually("the records", more, timeout=60)
    consumer.close()
    assert got == MASKED
