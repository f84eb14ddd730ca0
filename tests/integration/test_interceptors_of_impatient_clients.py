"""Interceptors see the requests of a client that sends them behind its authentication, without waiting for the answer:
at listeners with SASL, at the cluster's own authentication, after the end of a session, and in front of a router of
requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import pack
from typing import Any

import pytest

from mesh.wire.apis import ApiKey, has_tagged_response_header
from mesh.wire.entities import Direction
from mesh.wire.passing import REQUEST_HEAD
from mesh.wire.trees import Tree, read_tree
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_port
from tests.integration.raw import Endpoint, RawConnection
from tests.integration.test_interceptors import produce
from tests.interceptors.fakes import batch
from tests.router.pass_through import install_pass_through
from tests.runtime.interception.requests import CORRELATION, framed

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
CARD = b"4000123412341234"
TOPIC, OTHER = "cards", "others"
"""Topics with and without interceptors."""
PASSWORD = "sesam"
PLAIN = {"mechanisms": ["PLAIN"], "users": [{"name": "alice", "password": PASSWORD}]}
INVALID_RECORD = 87
FETCH: Mapping[str, Any] = {
    "replica_id": -1,
    "max_wait_ms": 100,
    "min_bytes": 1,
    "max_bytes": 1 << 20,
    "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}],
}


@pytest.fixture(scope="module")
def sasl() -> str:
    """The address of the broker's listener with SASL."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def cluster(sasl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    module = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
    more = {
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},SASL://{sasl}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},SASL://{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": module,
    }
    cluster = KafkaCluster("eu", kafka_jars(), tmp_path_factory.mktemp("kafka"), more)
    for topic in (TOPIC, OTHER):
        cluster.create_topic(topic, 1)
    assert produce(cluster.bootstrap_servers, TOPIC, [(b'{"card":"%s"}' % CARD, ())]) == [None]
    yield cluster
    cluster.kill()


@pytest.fixture(scope="module")
def doors(cluster: KafkaCluster, sasl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The addresses of virtual clusters with interceptors, by their names. `static` passes Fetch and Produce in
    pieces."""
    folder, patch = tmp_path_factory.mktemp("doors"), pytest.MonkeyPatch()
    install_pass_through(folder, patch)
    login = {"sasl.username": "alice", "sasl.password": PASSWORD}
    upstream = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", **login}
    relay = {"relay": {"cluster": "eu"}}
    front: dict[str, dict[str, Any]] = {
        "relay": {"target": relay, "sasl": PLAIN},
        "brief": {"target": relay, "sasl": {**PLAIN, "longest_session": "300ms"}},
        "upstream": {"target": {"relay": {"cluster": "secured", "authentication": "upstream"}}},
        "open": {"target": {"relay": {"cluster": "eu", "authentication": "upstream"}}},
        "one": {"target": relay, "sasl": PLAIN, "nodes": "one"},
        "union": {"target": {"router": "union"}, "sasl": PLAIN},
        "clients": {"target": {"router": "clients"}, "sasl": PLAIN},
        "router": {"target": {"router": "decoded"}, "sasl": PLAIN},
        "static": {"target": {"router": "static"}, "sasl": PLAIN},
    }
    found = {name: f"127.0.0.1:{free_port()}" for name in front}
    routes = [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}]
    by_alice = {"rules": [{"principals": ["User:alice"], "route": "eu"}]}
    routers = {
        "union": ("topics", {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"}),
        "clients": ("clients", by_alice),
        "decoded": ("pass-through", {"route": "eu"}),
        "static": ("pass-through", {"route": "eu", "static": ["FETCH", "PRODUCE"]}),
    }
    mask = {"name": "mask", "type": "mask", "topics": [TOPIC], "on": ["fetch"], "config": {"paths": ["card"]}}
    size = {"name": "size", "type": "size", "topics": [TOPIC], "on": ["produce"], "config": {"maximum": 100}}
    configuration = {
        "clusters": [
            {"name": "eu", "bootstrap_servers": cluster.bootstrap_servers},
            {"name": "secured", "bootstrap_servers": sasl, "properties": upstream},
        ],
        "interceptors": [mask, size],
        "routers": [
            {"name": name, "type": type, "config": config, "routes": routes} for name, (type, config) in routers.items()
        ],
        "virtual_clusters": [
            {
                "name": name,
                "listen": found[name],
                "nodes": {"ports": str(free_port()), "ids": {"eu": [1]} if "router" in each["target"] else [1]},
                "interceptors": ["mask", "size"],
                **each,
            }
            for name, each in front.items()
        ],
    }
    mesh = MeshProcess(folder, "doors", configuration)
    yield found
    mesh.kill()
    patch.undo()


@pytest.fixture
def client(doors: Mapping[str, str], request: pytest.FixtureRequest) -> Iterator[RawConnection]:
    client = RawConnection(Endpoint.of(doors[request.param]))
    yield client
    client.close()


def request(api_key: ApiKey, body: bytes) -> bytes:
    return REQUEST_HEAD.pack(10 + len(body), api_key, 1, CORRELATION) + b"\xff\xff" + body


TOKEN = f"\0alice\0{PASSWORD}".encode()
LOGIN = request(ApiKey.SASL_HANDSHAKE, b"\0\5PLAIN") + request(ApiKey.SASL_AUTHENTICATE, pack(">i", len(TOKEN)) + TOKEN)


def fetch() -> bytes:
    return bytes(framed(ApiKey.FETCH, 4, FETCH)[1])


def too_large(acks: int = 1, size: int = 1_000, topic: str = TOPIC) -> bytes:
    """A Produce of a record that `size` refuses."""
    partition = {"index": 0, "records": batch(b"x" * size)}
    topics = [{"name": topic, "partition_data": [partition]}]
    tree = {"transactional_id": None, "acks": acks, "timeout_ms": 10_000, "topic_data": topics}
    return bytes(framed(ApiKey.PRODUCE, 7, tree)[1])


def answered(client: RawConnection, api_key: ApiKey, version: int) -> Tree:
    frame = client.answer()
    assert frame is not None, f"closed before the answer to {api_key.name}"
    assert int.from_bytes(frame[:4], "big") == CORRELATION
    start = 4 + has_tagged_response_header(api_key, version)
    return read_tree(api_key, version, Direction.RESPONSE, memoryview(frame)[start:])


def logged_in(client: RawConnection) -> None:
    assert answered(client, ApiKey.SASL_HANDSHAKE, 1)["error_code"] == 0
    assert answered(client, ApiKey.SASL_AUTHENTICATE, 1)["error_code"] == 0


def examined(client: RawConnection) -> None:
    """Asserts that the answers to a Fetch and a Produce are those of the interceptors."""
    (topic,) = answered(client, ApiKey.FETCH, 4)["responses"]
    records = bytes(topic["partitions"][0]["records"])
    assert b"card" in records
    assert CARD not in records
    (topic,) = answered(client, ApiKey.PRODUCE, 7)["responses"]
    assert topic["partition_responses"][0]["error_code"] == INVALID_RECORD


EVERYWHERE = ["relay", "upstream", "one", "union", "clients", "router", "static"]


@pytest.mark.smoke
@pytest.mark.parametrize("client", EVERYWHERE, indirect=True)
def test_everything_comes_at_once(client: RawConnection) -> None:
    """Also a request that is larger than those allowed before the authentication."""
    client.tell(LOGIN + fetch() + too_large(size=100_000))
    logged_in(client)
    examined(client)


@pytest.mark.smoke
@pytest.mark.parametrize("client", EVERYWHERE, indirect=True)
def test_nothing_behind_a_refused_request_is_answered(client: RawConnection) -> None:
    """Also while an earlier request waits for its answer. The answer to the Fetch would be taken for that to the
    refused request, which no interceptor changes."""
    metadata = request(ApiKey.METADATA, pack(">i", 0))
    unknown = REQUEST_HEAD.pack(10, 97, 0, CORRELATION) + b"\xff\xff"
    client.tell(LOGIN + metadata + unknown + fetch() + too_large(acks=0) + too_large())
    logged_in(client)
    answered(client, ApiKey.METADATA, 1)
    assert client.answer() is None


@pytest.mark.parametrize("client", ["relay", "upstream"], indirect=True)
def test_everything_comes_byte_by_byte(client: RawConnection) -> None:
    for byte in LOGIN + fetch() + too_large():
        client.tell(bytes([byte]))
    logged_in(client)
    examined(client)


@pytest.mark.parametrize("client", ["relay", "router"], indirect=True)
def test_many_logins_come_at_once(client: RawConnection) -> None:
    client.tell(LOGIN * 400 + fetch() + too_large())
    for _ in range(400):
        logged_in(client)
    examined(client)


@pytest.mark.smoke
@pytest.mark.parametrize("client", EVERYWHERE, indirect=True)
def test_a_produce_without_an_answer_of_a_topic_without_interceptors(client: RawConnection) -> None:
    client.tell(LOGIN + too_large(acks=0, topic=OTHER) + fetch() + too_large())
    logged_in(client)
    examined(client)


@pytest.mark.parametrize("client", ["brief"], indirect=True)
def test_a_session_that_has_ended_is_renewed_with_everything_at_once(
    client: RawConnection, doors: Mapping[str, str]
) -> None:
    later = RawConnection(Endpoint.of(doors["brief"]))
    for each in (client, later):
        each.tell(LOGIN)
        logged_in(each)

    def is_over() -> bool:
        """True if the session of the later client has ended, and so that of the first one."""
        later.tell(fetch())
        return later.answer() is None

    eventually("the end of a session", is_over)
    client.tell(LOGIN + fetch() + too_large())
    logged_in(client)
    examined(client)


@pytest.mark.parametrize("client", ["open"], indirect=True)
def test_the_first_request_at_a_cluster_without_authentication(client: RawConnection) -> None:
    client.tell(fetch() + too_large())
    examined(client)


@pytest.mark.parametrize("client", ["upstream"], indirect=True)
def test_a_client_without_an_authentication_gets_no_answer(client: RawConnection) -> None:
    client.tell(too_large() + fetch())
    assert client.answer() is None


@pytest.mark.parametrize("client", ["relay", "upstream", "router"], indirect=True)
def test_a_password_that_is_wrong(client: RawConnection) -> None:
    client.tell(LOGIN.replace(PASSWORD.encode(), b"apple") + too_large(acks=0) + fetch())
    assert answered(client, ApiKey.SASL_HANDSHAKE, 1)["error_code"] == 0
    assert answered(client, ApiKey.SASL_AUTHENTICATE, 1)["error_code"] == 58
    assert client.answer() is None
