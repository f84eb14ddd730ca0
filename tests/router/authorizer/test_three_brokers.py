"""A cluster of three brokers under rules, or behind a router that chooses by connection: the broker that the client has
chosen answers the requests that kafka-mesh divides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_port, free_ports
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import NODES, SeveralBrokers
from tests.router.authorizer.sides import PASSWORD, Client, told

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("three brokers"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
USER = "owner"
MINE, SECRET = "mine", "secret"
COUNT = 300
TRIES = 6
"""Connections that ask the same. One of three brokers answers well by chance."""
RULES: list[dict[str, Any]] = [
    {"principals": [f"User:{USER}"], "topics": ["*"], "groups": ["*"], "cluster": True, "operations": ["all"]},
    {"principals": [f"User:{USER}"], "permission": "deny", "topics": [SECRET], "operations": ["read"]},
]
_BROKER, _LOGGER = 4, 8


@dataclass(frozen=True, slots=True)
class Front:
    """Kafka-mesh before the cluster. user: None if clients do not log in."""

    cluster: SeveralBrokers
    bootstrap: str
    user: str | None
    topic_id: UUID
    folder: Path

    def client(self, address: str) -> Client:
        return Client(address, self.user)

    def asked(self, address: str, api_key: ApiKey, version: int, request: Tree) -> Tree:
        """The answer at an address, on a new connection."""
        client = self.client(address)
        try:
            answer = client.ask(api_key, version, request)
        finally:
            client.close()
        assert answer is not None, f"{address} closed the connection"
        return answer

    def address_of(self, node: int) -> str:
        """The address of a node for clients."""
        brokers = self.asked(self.bootstrap, ApiKey.METADATA, 9, {"topics": []})["brokers"]
        (found,) = [each for each in brokers if each["node_id"] % (1 << 20) == node]
        return f"{found['host']}:{found['port']}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    cluster = SeveralBrokers("eu", kafka_jars(), tmp_path_factory.mktemp("three"))
    try:
        for topic in (MINE, SECRET):
            cluster.create_topic(topic, 3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(COUNT):
            producer.produce(MINE, b"%d" % number, partition=number % 3)
        assert producer.flush(30) == 0
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module", params=["rules", "clients"])
def front(
    request: pytest.FixtureRequest, cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    """rules: a relay with `authorization`. clients: a router that leads every client to the cluster."""
    folder = tmp_path_factory.mktemp(request.param)
    topics = cluster.ask(3, 12, topics=[{"name": MINE}]).topics
    with ExitStack() as stack:
        if request.param == "rules":
            sasl = {"mechanisms": ["PLAIN"], "users": [{"name": USER, "password": PASSWORD}]}
            listener = {"sasl": sasl, "authorization": {"rules": RULES}}
            mesh: Any = RelayMesh(folder, cluster.every_address, NODES, listener=listener)
            bootstrap, user = mesh.bootstrap_servers, USER
        else:
            bootstrap, user = f"127.0.0.1:{free_port()}", None
            mesh = MeshProcess(folder, "clients", _behind_clients(cluster, bootstrap))
        stack.callback(mesh.kill)
        yield Front(cluster, bootstrap, user, topics[0].topic_id, folder)


def _behind_clients(cluster: SeveralBrokers, bootstrap: str) -> dict[str, Any]:
    ports = free_ports(len(NODES))
    routes = [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}]
    return {
        "clusters": [{"name": "eu", "bootstrap_servers": cluster.every_address}],
        "routers": [{"name": "who", "type": "clients", "config": {"rules": [], "default": "eu"}, "routes": routes}],
        "virtual_clusters": [
            {
                "name": "front",
                "listen": bootstrap,
                "nodes": {"ports": f"{ports[0]}-{ports[-1]}", "ids": {"eu": list(NODES)}},
                "target": {"router": "who"},
            }
        ],
    }


def coordinator(front: Front, group: str) -> tuple[int, str]:
    """The node that coordinates a group, and its address for clients."""

    def found() -> Tree | None:
        keys: Tree = {"key_type": 0, "coordinator_keys": [group]}
        (answer,) = front.asked(front.bootstrap, ApiKey.FIND_COORDINATOR, 4, keys)["coordinators"]
        return answer if not answer["error_code"] else None

    answer = eventually(f"coordinator of {group}", found)
    assert answer is not None
    return answer["node_id"], f"{answer['host']}:{answer['port']}"


def codes(answer: Tree) -> set[int]:
    return {code for _, key, code in told(answer) if key.endswith("error_code")}


@pytest.mark.smoke
def test_the_coordinator_answers_about_offsets(front: Front) -> None:
    group = f"offsets-{free_port()}"
    node, address = coordinator(front, group)
    position = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    commit: Tree = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    topics = [{"topic_id": front.topic_id, "partitions": [position]}]
    for _ in range(TRIES):
        answer = front.asked(address, ApiKey.OFFSET_COMMIT, 10, {**commit, "topics": topics})
        assert codes(answer) == {0}, node
    asked: list[tuple[ApiKey, int, Tree]] = [
        (ApiKey.OFFSET_FETCH, 10, {"groups": [{"group_id": group, "topics": topics_by_id(front, 0)}]}),
        (ApiKey.OFFSET_FETCH, 9, {"groups": [{"group_id": group, "topics": None}]}),
        (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, {"groups": [{"group_id": group, "topics": None}]}),
        (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, {"group_id": group, "topics": [altered(MINE)]}),
        (ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, {"group_id": group, "topics": [{"topic_name": MINE}]}),
        (ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": [deleted(MINE, 1), deleted("missing", 0)]}),
    ]
    broker = Client(str(front.cluster.addresses[node % (1 << 20)]), None)
    try:
        for api_key, version, request in asked:
            expected = told(broker.ask(api_key, version, request))
            for _ in range(TRIES):
                assert told(front.asked(address, api_key, version, request)) == expected, api_key.name
    finally:
        broker.close()


def topics_by_id(front: Front, *partitions: int) -> list[Tree]:
    return [{"topic_id": front.topic_id, "partition_indexes": list(partitions)}]


def altered(topic: str) -> Tree:
    return {"topic_name": topic, "partitions": [{"partition_index": 0, "start_offset": 0}]}


def deleted(topic: str, partition: int) -> Tree:
    return {"name": topic, "partitions": [{"partition_index": partition}]}


def test_what_the_rules_leave_of_a_request_goes_to_the_coordinator(front: Front) -> None:
    group = f"partly-{free_port()}"
    _, address = coordinator(front, group)
    position = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [position]} for name in (MINE, SECRET)]
    request = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
    for _ in range(TRIES):
        answer = front.asked(address, ApiKey.OFFSET_COMMIT, 8, request)
        found = {each["name"]: each["partitions"][0]["error_code"] for each in answer["topics"]}
        assert found == {MINE: 0, SECRET: 29 if front.user is not None else 0}


def test_each_broker_answers_about_its_own_configuration(front: Front) -> None:
    for node in NODES:
        address = front.address_of(node)
        resources: list[Tree] = [{"resource_type": kind, "resource_name": str(node)} for kind in (_BROKER, _LOGGER)]
        described = front.asked(address, ApiKey.DESCRIBE_CONFIGS, 4, {"resources": resources})
        assert [each["error_code"] for each in described["results"]] == [0, 0], described
        value = {"name": "leader.replication.throttled.rate", "value": str(node + 1000)}
        for api_key in (ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS):
            changes = {"resources": [{**resources[0], "configs": [{**value, "config_operation": 0}]}]}
            changed = front.asked(address, api_key, 1, changes)
            assert [each["error_code"] for each in changed["responses"]] == [0], changed


def test_a_broker_refuses_the_configuration_of_a_node_that_the_cluster_lacks(front: Front) -> None:
    """Like one of the brokers, which know their own only."""
    resources = [{"resource_type": _BROKER, "resource_name": name} for name in ("77", "101")]
    answer = front.asked(front.address_of(101), ApiKey.DESCRIBE_CONFIGS, 4, {"resources": resources})
    assert {each["resource_name"]: each["error_code"] for each in answer["results"]} == {"77": 42, "101": 0}


@pytest.mark.smoke
def test_java_consumes_with_the_consumer_protocol(front: Front) -> None:
    group = f"java-{free_port()}"
    file = front.folder / "consumer.properties"
    lines = ["group.protocol=consumer"]
    if front.user is not None:
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        lines += [
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=PLAIN",
            f'sasl.jaas.config={login} username="{front.user}" password="{PASSWORD}";',
        ]
    file.write_text("".join(f"{line}\n" for line in lines))
    read = front.cluster.run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", front.bootstrap, "--topic", MINE, "--group", group, "--from-beginning"),
        *("--max-messages", str(COUNT), "--timeout-ms", "30000", "--command-config", str(file)),
    )
    assert sorted(map(int, read.split())) == list(range(COUNT))
