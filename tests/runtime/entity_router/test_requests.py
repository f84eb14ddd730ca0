"""Requests to a union: those that pass, those that are divided, and the order of their answers."""

from __future__ import annotations

import asyncio
from struct import pack
from typing import Any

import pytest

from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NODE_BITS
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.routing.unions import RENAMED
from tests.runtime.entity_router.harness import LeafCluster, union
from tests.runtime.relay.loops import anyhow, everywhere, until

US = 1 << NODE_BITS


def offsets(*topics: str) -> Tree:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
    return {"replica_id": -1, "topics": [{"name": name, "partitions": [partition]} for name in topics]}


def produce(*topics: str, acks: int = -1, transactional_id: str | None = None) -> Tree:
    data = [{"name": name, "partition_data": [{"index": 0, "records": b"records"}]} for name in topics]
    return {"acks": acks, "timeout_ms": 1_000, "transactional_id": transactional_id, "topic_data": data}


def coordinators(cluster: LeafCluster, request: Tree) -> Tree:
    """Node 0 coordinates everything."""
    host, port = cluster.addresses[0]
    keys = request["coordinator_keys"]
    return {"coordinators": [{"key": key, "node_id": 0, "host": host, "port": port} for key in keys]}


def errors(produced: Tree) -> dict[str, int]:
    return {each["name"]: each["partition_responses"][0]["error_code"] for each in produced["responses"]}


@everywhere
async def test_answers_leave_in_the_order_of_their_requests() -> None:
    async with union() as made:
        for cluster in (made.eu, made.us):
            cluster.answers = lambda api_key, version, request, cluster=cluster: (  # type: ignore[misc]
                coordinators(cluster, request) if api_key is ApiKey.FIND_COORDINATOR else {}
            )
        client = await made.client(US)
        for correlation_id in range(100):
            if correlation_id % 3:
                client.ask_tree(ApiKey.LIST_OFFSETS, 6, offsets("us.orders"), correlation_id)
            else:
                keys: Tree = {"key_type": 0, "coordinator_keys": ["one", "us-one"]}
                client.ask_tree(ApiKey.FIND_COORDINATOR, 4, keys, correlation_id)
        for correlation_id in range(100):
            if correlation_id % 3:
                await client.tree(ApiKey.LIST_OFFSETS, 6, correlation_id)
                continue
            answer = await client.tree(ApiKey.FIND_COORDINATOR, 4, correlation_id)
            found = {each["key"]: (each["node_id"], each["port"]) for each in answer["coordinators"]}
            assert found == {"one": (0, made.ports[0]), "us-one": (US, made.ports[US])}


@anyhow
async def test_a_produce_to_another_cluster_is_refused_and_nothing_of_it_sent() -> None:
    async with union() as made:
        client = await made.client(US)
        for topics in (("orders",), ("us.orders", "orders")):
            answer = await client.asked(ApiKey.PRODUCE, 9, produce(*topics))
            assert errors(answer) == dict.fromkeys(topics, 6)
        assert made.us.seen == made.eu.seen == []
        made.us.answers = lambda api_key, version, request: {
            "responses": [{"name": "us.orders", "partition_responses": [{"index": 0, "base_offset": 5}]}]
        }
        assert errors(await client.asked(ApiKey.PRODUCE, 9, produce("us.orders"))) == {"us.orders": 0}


@anyhow
@pytest.mark.parametrize("version", range(3, 13))
async def test_an_answer_to_a_producer_names_topics_as_clients_do(version: int) -> None:
    """Even one with only offsets, which passes undecoded if names are the same."""
    async with union(RENAMED) as made:
        client = await made.client(US)
        made.us.answers = lambda api_key, version, request: {
            "responses": [
                {"name": each["name"], "partition_responses": [{"index": 0, "base_offset": 5}]}
                for each in request["topic_data"]
            ]
        }
        assert errors(await client.asked(ApiKey.PRODUCE, version, produce("us.orders"))) == {"us.orders": 0}
        ((_, seen),) = made.us.seen
        assert [each["name"] for each in seen["topic_data"]] == ["orders"]


@anyhow
async def test_a_produce_without_acks_to_another_cluster_closes_the_connection() -> None:
    async with union() as made:
        client = await made.client(US)
        client.ask_tree(ApiKey.PRODUCE, 9, produce("us.orders", acks=0))
        client.ask_tree(ApiKey.PRODUCE, 9, produce("orders", acks=0))
        assert await client.rest() == b""
        await until(lambda: made.us.brokers[0].leg.has_ended)
        (asked,) = made.us.brokers[0].leg.asked
        assert b"us.orders" in asked.frame


@anyhow
async def test_a_transaction_outside_of_its_home_is_refused_so_that_it_is_aborted() -> None:
    async with union() as made:
        client = await made.client(US)
        for version, error in ((9, 29), (11, 120)):
            answer = await client.asked(ApiKey.PRODUCE, version, produce("us.orders", transactional_id="one"))
            assert errors(answer) == {"us.orders": error}
        partitions: Tree = {"transactional_id": "us-one", "producer_id": 1, "producer_epoch": 0}
        for name, error in (("orders", 29), ("us.orders", 0)):
            topics = [{"name": name, "partitions": [0]}]
            made.us.answers = lambda *_: {
                "results_by_topic_v3_and_below": [
                    {"name": "us.orders", "results_by_partition": [{"partition_index": 0}]}
                ]
            }
            answer = await client.asked(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                {f"v3_and_below_{key}": value for key, value in {**partitions, "topics": topics}.items()},
            )
            (result,) = answer["results_by_topic_v3_and_below"]
            assert (result["name"], result["results_by_partition"][0]["partition_error_code"]) == (name, error)


@anyhow
async def test_what_belongs_to_a_group_of_another_cluster_is_not_coordinated_here() -> None:
    async with union() as made:
        made.us.answers = lambda *_: {}
        client = await made.client(0)
        member: Tree = {"group_id": "us-one", "generation_id": 1, "member_id": "m"}
        assert (await client.asked(ApiKey.HEARTBEAT, 4, member))["error_code"] == 16
        assert (await client.asked(ApiKey.JOIN_GROUP, 7, {**member, "protocol_type": "consumer"}))["error_code"] == 16
        assert made.us.seen == []
        there = await made.client(US)
        assert (await there.asked(ApiKey.HEARTBEAT, 4, member))["error_code"] == 0


@anyhow
async def test_the_coordinator_of_a_cluster_that_is_down_is_not_available() -> None:
    async with union() as made:
        made.eu.answers = lambda api_key, version, request: coordinators(made.eu, request)
        await made.us.stop()
        client = await made.client()
        keys: Tree = {"key_type": 0, "coordinator_keys": ["us-one", "one"]}
        answer = await client.asked(ApiKey.FIND_COORDINATOR, 4, keys)
        assert [(each["key"], each["error_code"]) for each in answer["coordinators"]] == [("us-one", 15), ("one", 0)]


@anyhow
async def test_topics_are_created_by_their_owners() -> None:
    rules = [{"prefix": "us.", "route": "us", "strip": True}, {"prefix": "orders", "route": "eu"}]
    async with union({**RENAMED, "topics": rules}) as made:

        def created(api_key: ApiKey, version: int, request: Tree) -> Tree:
            return {"topics": [{"name": each["name"], "num_partitions": 3} for each in request["topics"]]}

        made.eu.answers = made.us.answers = created
        client = await made.client()
        names = ("us.payments", "orders", "us.")
        topics = [{"name": name, "num_partitions": 3, "replication_factor": 1} for name in names]
        answer = await client.asked(ApiKey.CREATE_TOPICS, 7, {"topics": topics, "timeout_ms": 1_000})
        assert [(each["name"], each["error_code"]) for each in answer["topics"]] == [
            ("us.payments", 0),
            ("orders", 0),
            ("us.", 44),
        ]
        assert [each["name"] for _, request in made.us.seen for each in request["topics"]] == ["payments"]
        assert [each["name"] for _, request in made.eu.seen for each in request["topics"]] == ["orders"]


@anyhow
async def test_controllers_with_zookeeper_are_asked_themselves() -> None:
    """Brokers with ZooKeeper pass nothing on to the controller, and clients know only that of the default cluster."""
    async with union(brokers=3) as made:
        made.us.controller = 2
        made.us.answers = lambda api_key, version, request: {"responses": [{"name": "us.one", "error_code": 0}]}
        refused = {"responses": [{"name": "us.one", "error_code": ErrorCode.NOT_CONTROLLER}]}
        for broker in made.us.leaf_brokers[:2]:
            broker.answers = lambda api_key, version, request: refused
        for _ in range(3):
            client = await made.client()
            deleted = {"topic_names": ["us.one"], "timeout_ms": 1_000}
            (result,) = (await client.asked(ApiKey.DELETE_TOPICS, 4, deleted))["responses"]
            assert result["error_code"] == 0


@anyhow
async def test_producers_have_their_ids_of_the_default_cluster() -> None:
    async with union() as made:
        made.eu.answers = lambda *_: {"producer_id": 7}
        made.us.answers = lambda *_: {"producer_id": 8}
        for node in (None, 0, US):
            client = await made.client(node)
            request: Tree = {"transactional_id": None, "transaction_timeout_ms": 1_000}
            assert (await client.asked(ApiKey.INIT_PRODUCER_ID, 4, request))["producer_id"] == 7
        client = await made.client(US)
        request = {"transactional_id": "us-one", "transaction_timeout_ms": 1_000}
        assert (await client.asked(ApiKey.INIT_PRODUCER_ID, 4, request))["producer_id"] == 8


@anyhow
async def test_all_nodes_are_those_of_one_cluster() -> None:
    async with union() as made:
        for cluster in (made.eu, made.us):
            cluster.answers = lambda api_key, version, request, cluster=cluster: {  # type: ignore[misc]
                "brokers": [{"broker_id": 0, "host": "127.0.0.1", "port": cluster.addresses[0][1]}],
                "cluster_id": f"id of {cluster.name}",
                "controller_id": 0,
            }
        client = await made.client()
        answer = await client.asked(ApiKey.DESCRIBE_CLUSTER, 0, {})
        assert {each["broker_id"]: each["port"] for each in answer["brokers"]} == {id: made.ports[id] for id in (0, US)}
        assert (answer["cluster_id"], answer["controller_id"]) == ("id of the union", 0)


@anyhow
async def test_nothing_is_advertised_that_is_not_served() -> None:
    async with union() as made:
        made.us.brokers[0].serves[ApiKey.LIST_OFFSETS] = (1, 7)
        made.us.guide.serves[ApiKey.LIST_OFFSETS] = (1, 7)
        for node in (None, US):
            client = await made.client(node)
            software = {"client_software_name": "a", "client_software_version": "1"}
            listed = await client.asked(ApiKey.API_VERSIONS, 3, software)
            versions = {each["api_key"]: (each["min_version"], each["max_version"]) for each in listed["api_keys"]}
            assert ApiKey.CREATE_ACLS not in versions
            assert versions[ApiKey.ADD_PARTITIONS_TO_TXN][1] == 3
            assert ApiKey.METADATA in versions
        client.send(pack(">ihhih", 10, ApiKey.CREATE_ACLS, 1, 1, 0))
        assert await client.rest() == b""


@anyhow
async def test_a_cluster_that_does_not_answer_ends_a_request_in_time() -> None:
    async with union() as made:
        made.eu.answers = lambda api_key, version, request: coordinators(made.eu, request)
        made.us.answers = lambda *_: None
        made.runtime._services.requests.timeout = 0.05
        client = await made.client()
        keys: Tree = {"key_type": 0, "coordinator_keys": ["us-one", "one"]}
        answer = await client.asked(ApiKey.FIND_COORDINATOR, 4, keys)
        assert [(each["key"], each["error_code"]) for each in answer["coordinators"]] == [("us-one", 15), ("one", 0)]


@anyhow
async def test_a_client_that_leaves_while_its_request_is_divided() -> None:
    async with union() as made:
        asked = asyncio.Event()

        def never(*_: Any) -> None:
            asked.set()

        made.us.answers = never
        client = await made.client()
        client.ask_tree(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["us-one"]})
        await asked.wait()
        client.abort()


@anyhow
async def test_all_partitions_that_move_are_asked_of_all_clusters() -> None:
    async with union() as made:
        for cluster, name in ((made.eu, "orders"), (made.us, "us.orders")):
            moved = {"name": name, "partitions": [{"partition_index": 0, "replicas": [0], "adding_replicas": [0]}]}
            cluster.answers = lambda *_, moved=moved: {"topics": [moved]}
        for node in (None, 0, US):
            client = await made.client(node)
            request: Tree = {"topics": None, "timeout_ms": 1_000}
            answer = await client.asked(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request)
            replicas = {each["name"]: each["partitions"][0]["replicas"] for each in answer["topics"]}
            assert replicas == {"orders": [0], "us.orders": [US]}


@anyhow
async def test_a_client_names_the_node_in_its_handshake() -> None:
    async with union() as made:
        made.named = US
        client = await made.client()
        await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("us.orders"))
        assert [api_key for api_key, _ in made.us.seen] == [ApiKey.LIST_OFFSETS]
        assert made.leaves.by_number[LeafNumber(1)].nodes.known[0].legs == 1


@anyhow
async def test_a_broker_is_asked_itself_about_its_configuration() -> None:
    """Each broker knows only its own. One that is down fails alone."""
    async with union(brokers=3) as made:
        for cluster in (made.eu, made.us):
            for broker in cluster.leaf_brokers:
                broker.answers = lambda api_key, version, request, id=broker.id: {
                    "results": [
                        {**each, "error_code": 0 if int(each["resource_name"]) == id else 42, "configs": []}
                        for each in request["resources"]
                    ]
                }
        names = [str(node) for node in (2, US + 1, 0, US + 2, US)]
        request: Tree = {"resources": [{"resource_type": 4, "resource_name": name} for name in names]}
        for node in (None, 0, US):
            client = await made.client(node)
            results = (await client.asked(ApiKey.DESCRIBE_CONFIGS, 4, request))["results"]
            assert [(each["resource_name"], each["error_code"]) for each in results] == [(name, 0) for name in names]
        made.us.leaf_brokers[2].stop()
        client = await made.client()
        results = (await client.asked(ApiKey.DESCRIBE_CONFIGS, 4, request))["results"]
        assert [each["error_code"] for each in results] == [0, 0, 0, ErrorCode.REQUEST_TIMED_OUT, 0]


@anyhow
async def test_a_broker_that_does_not_answer_about_itself_delays_no_other_resource() -> None:
    """Whichever broker is asked about the rest, it is not the one with a request of its own."""
    async with union(brokers=3) as made:
        for broker in made.eu.leaf_brokers:
            broker.answers = lambda api_key, version, request: {
                "results": [{**each, "error_code": 0, "configs": []} for each in request["resources"]]
            }
        made.eu.leaf_brokers[1].answers = lambda api_key, version, request: None
        named = [(4, "1"), (2, "orders"), (4, "2")]
        request: Tree = {"resources": [{"resource_type": kind, "resource_name": name} for kind, name in named]}
        clients = [await made.client() for _ in made.eu.leaf_brokers]
        for answer in await asyncio.gather(*(each.asked(ApiKey.DESCRIBE_CONFIGS, 4, request) for each in clients)):
            assert [each["error_code"] for each in answer["results"]] == [ErrorCode.REQUEST_TIMED_OUT, 0, 0]
