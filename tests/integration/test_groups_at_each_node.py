"""A program that asks each node for its groups, and describes them there, as exporters do, sees each group once: at a
broker, at a pool, and at a pool behind a router."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka import KafkaAdminClient

from mesh.wire.apis import ApiKey, has_tagged_response_header
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree, read_tree
from tests.integration.jars import missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_port, free_ports
from tests.integration.raw import Endpoint, RawConnection
from tests.runtime.interception.requests import framed

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
TOPIC = "seen-once"


@pytest.fixture(scope="module")
def doors(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The addresses of a broker and of pools of it, by names."""
    kafka.create_topic(TOPIC, 2)
    shared = {"topics": [{"prefix": TOPIC, "cluster": "eu"}], "groups": ["*"]}
    pools = {name: {"pool": {**shared, "upstream_group_prefix": f"of-{name}."}} for name in ("pool", "router")}
    ports = iter(free_ports(5))
    listen = {name: {"listen": f"127.0.0.1:{next(ports)}", "coordinator": f"127.0.0.1:{next(ports)}"} for name in "pr"}
    configuration = {
        "clusters": [{"name": "eu", "bootstrap_servers": kafka.bootstrap_servers}],
        "routers": [
            {
                "name": "who",
                "type": "clients",
                "config": {"default": "shared"},
                "routes": [
                    {"name": "shared", "id": 0, "target": pools["router"]},
                    {"name": "eu", "id": 1, "target": {"cluster": "eu"}},
                ],
            }
        ],
        "virtual_clusters": [
            {"name": "pool", **listen["p"], "target": pools["pool"]},
            {"name": "router", **listen["r"], "nodes": {"ports": str(free_port())}, "target": {"router": "who"}},
        ],
    }
    mesh = MeshProcess(tmp_path_factory.mktemp("mesh"), "mesh", configuration)
    yield {"broker": kafka.bootstrap_servers, "pool": listen["p"]["listen"], "router": listen["r"]["listen"]}
    mesh.kill()


@pytest.fixture(params=["broker", "pool", "router"])
def seen(request: pytest.FixtureRequest, doors: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The address of a cluster, and a group there, which has a member."""
    address, group = doors[request.param], f"seen-{request.param}"
    properties = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**CLIENT_PROPERTIES, **properties})
    consumer.subscribe([TOPIC])
    eventually("an assignment", lambda: consumer.poll(0.1) or consumer.assignment())
    yield address, group
    consumer.close()


def asked(address: str, api_key: ApiKey, version: int, tree: Mapping[str, Any]) -> Tree:
    connection = RawConnection(Endpoint.of(address))
    connection.tell(bytes(framed(api_key, version, tree)[1]))
    answer = connection.answer()
    connection.close()
    assert answer is not None
    start = 4 + has_tagged_response_header(api_key, version)
    return read_tree(api_key, version, Direction.RESPONSE, memoryview(answer)[start:])


@pytest.mark.smoke
def test_each_group_is_seen_once(seen: tuple[str, str]) -> None:
    address, name = seen
    brokers = asked(address, ApiKey.METADATA, 1, {"topics": []})["brokers"]
    described = []
    for each in brokers:
        node = f"{each['host']}:{each['port']}"
        listed = [group["group_id"] for group in asked(node, ApiKey.LIST_GROUPS, 2, {})["groups"]]
        groups = asked(node, ApiKey.DESCRIBE_GROUPS, 4, {"groups": [name], "include_authorized_operations": False})
        (group,) = groups["groups"]
        assert (group["error_code"] == ErrorCode.NONE) is (name in listed)
        assert group["error_code"] in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)
        described += [member["client_id"] for member in group["members"]]
    assert len(described) == 1


def test_kafka_python_lists_it_once(seen: tuple[str, str]) -> None:
    address, name = seen
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        assert [str(each).count(name) for each in admin.list_groups() if name in str(each)] == [1]
    finally:
        admin.close()
