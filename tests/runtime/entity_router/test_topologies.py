"""Topology descriptions in a union: the home of a group keeps them itself, or else the mesh does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from structlog.testing import capture_logs

from mesh.routing.node_ids import NODE_BITS
from mesh.runtime.entity_router.cluster_topologies import ClusterTopologies
from mesh.runtime.topologies.topologies import Topologies
from mesh.runtime.topologies.topology_samples import samples_of, status_of_clusters
from mesh.security.rules import Operation, ResourceType, Rules
from mesh.streams.description import tree_of
from mesh.streams.epochs import NONE
from mesh.topology_plugins.memory import MemoryPlugin
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.runtime.entity_router.harness import LeafCluster, UnionClient, UnionWorld, union
from tests.runtime.entity_router.test_rules import rule
from tests.runtime.relay.loops import anyhow
from tests.runtime.topologies.test_topologies import DESCRIPTION
from tests.upstream.store.memory import MemoryStore

EPOCH, MEMBER = 3, "m"
BEFORE: dict[ApiKey, int] = {
    ApiKey.STREAMS_GROUP_HEARTBEAT: 0,
    ApiKey.STREAMS_GROUP_DESCRIBE: 0,
    ApiKey.DELETE_GROUPS: 2,
}
"""The highest versions of Kafka 4.3."""
PUSH = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
DESCRIBE, BEAT, DELETE, JOIN = (
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.DELETE_GROUPS,
    ApiKey.JOIN_GROUP,
)
EU, US = 0, 1 << NODE_BITS
"""A node of each cluster, with the id that clients see."""


class Coordinator:
    """Streams groups of one cluster, each with one member and one topic. empty: groups whose members have left."""

    def __init__(self, cluster: LeafCluster, topic: str) -> None:
        self.empty: set[str] = set()
        self.topic = topic
        self._cluster = cluster
        cluster.answers = self.answer

    def answer(self, api_key: ApiKey, version: int, request: Tree) -> Tree:
        match api_key:
            case ApiKey.STREAMS_GROUP_DESCRIBE:
                return {"groups": [self._described(each) for each in request["group_ids"]]}
            case ApiKey.DELETE_GROUPS:
                return {"results": [{"group_id": each, "error_code": 0} for each in request["groups_names"]]}
            case ApiKey.FIND_COORDINATOR:
                host, port = self._cluster.addresses[0]
                return {"error_code": 0, "node_id": 0, "host": host, "port": port}
            case _:
                return {}

    def _described(self, group: str) -> Tree:
        members = [] if group in self.empty else [{"member_id": MEMBER}]
        topology = {"epoch": EPOCH, "subtopologies": [{"subtopology_id": "0", "source_topics": [self.topic]}]}
        state = "Empty" if group in self.empty else "Stable"
        return {
            "group_id": group,
            "group_state": state,
            "error_code": 0,
            "topology": topology,
            "members": members,
            "authorized_operations": -(2**31),
        }

    def asked(self) -> list[ApiKey]:
        return [key for key, _ in self._cluster.seen if key in (PUSH, DESCRIBE, BEAT, DELETE, JOIN)]


class Both:
    """A union whose cluster eu does not know descriptions, but whose cluster us does."""

    def __init__(self, world: UnionWorld) -> None:
        self.world = world
        self.store = MemoryStore()
        self.eu, self.us = Coordinator(world.eu, "orders"), Coordinator(world.us, "us.orders")
        self.topologies = ClusterTopologies(self._made)
        before = world.leaves.default.nodes.known[0]
        assert before.versions is not None
        before.versions = {key: each for key, each in before.versions.items() if key is not PUSH}
        for key, highest in BEFORE.items():
            before.versions[key] = Versions(0, highest, before.versions[key].first_flexible)
        for leaf in world.leaves:
            leaf.services.topologies = self.topologies.of(leaf.nodes)
        world.runtime.topologies = self.topologies

    def _made(self, cluster: str) -> Topologies:
        plugin = MemoryPlugin(None, cluster)
        return Topologies("front", self.store, plugin, plugin_name="memory", cluster=cluster, place=f"front/{cluster}")

    def stored(self, group: str) -> list[int]:
        """The stored epochs in eu and in us."""
        return [each.epochs(group).stored for each in self.topologies]


@asynccontextmanager
async def both() -> AsyncIterator[Both]:
    async with union() as world:
        yield Both(world)


def push_of(group: str) -> Tree:
    return {
        "group_id": group,
        "member_id": MEMBER,
        "topology_epoch": EPOCH,
        "topology_description": tree_of(DESCRIPTION),
    }


def describe_of(group: str) -> Tree:
    return {"group_ids": [group], "include_topology_description": True}


def beat_of(group: str) -> Tree:
    topology = {"epoch": EPOCH, "subtopologies": []}
    tasks: Tree = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    return {"group_id": group, "member_id": MEMBER, "member_epoch": 0, "topology": topology, **tasks}


async def pushed(client: UnionClient, group: str) -> int:
    return int((await client.asked(PUSH, 0, push_of(group)))["error_code"])


async def status(client: UnionClient, group: str) -> int:
    (told,) = (await client.asked(DESCRIBE, 1, describe_of(group)))["groups"]
    return int(told["topology_description_status"])


@anyhow
async def test_the_home_of_a_group_decides() -> None:
    async with both() as made:
        eu, us = await made.world.client(EU), await made.world.client(US)
        beat = await eu.asked(BEAT, 1, beat_of("g"))
        assert (beat["error_code"], beat["topology_description_required"]) == (0, True)
        assert await pushed(eu, "g") == ErrorCode.NONE
        assert await status(eu, "g") == 3
        assert made.eu.asked() == [BEAT, DESCRIBE, DESCRIBE]
        assert await pushed(us, "us-g") == ErrorCode.NONE
        await us.asked(BEAT, 1, beat_of("us-g"))
        await us.asked(DESCRIBE, 1, describe_of("us-g"))
        assert made.us.asked() == [PUSH, BEAT, DESCRIBE], "as they are: the cluster itself keeps them"
        assert made.stored("g") == [EPOCH, NONE]
        assert made.stored("us-g") == [NONE, NONE]
        streams = status_of_clusters(made.topologies)
        assert streams["groups"] == [{"group": "g", "cluster": "eu", "stored": EPOCH, "failed": -1}]
        counts = {each.family.name: each.value for each in samples_of(*made.topologies)}
        assert [value for name, value in counts.items() if "set_success" in name] == [1]


@anyhow
async def test_what_both_serve_is_advertised() -> None:
    async with both() as made:
        for node in (None, EU, US):
            client = await made.world.client(node)
            listed = (await client.asked(ApiKey.API_VERSIONS, 0, {}))["api_keys"]
            highest = {each["api_key"]: each["max_version"] for each in listed}
            assert [highest[key] for key in (PUSH, DESCRIBE, BEAT, DELETE)] == [0, 1, 1, 3], node
        before = made.world.leaves.default.nodes.known[0]
        assert before.versions is not None
        before.versions = {key: each for key, each in before.versions.items() if key is not BEAT}  # before 4.2
        listed = (await (await made.world.client()).asked(ApiKey.API_VERSIONS, 0, {}))["api_keys"]
        assert not {PUSH, BEAT} & {each["api_key"] for each in listed}


@anyhow
async def test_a_node_that_is_named_in_the_handshake_is_of_the_named_cluster() -> None:
    async with both() as made:
        made.world.named = US
        client = await made.world.client()
        assert await pushed(client, "us-g") == ErrorCode.NONE
        assert (made.us.asked(), made.eu.asked()) == ([PUSH], [])


@anyhow
async def test_a_group_is_deleted_with_its_description_in_all_clusters() -> None:
    async with both() as made:
        client = await made.world.client(EU)
        await pushed(client, "g")
        made.eu.empty.add("g")
        (result,) = (await client.asked(DELETE, 3, {"groups_names": ["g"]}))["results"]
        assert (result["group_id"], result["error_code"]) == ("g", ErrorCode.NONE)
        assert made.stored("g") == [NONE, NONE]
        assert DELETE in made.eu.asked() and DELETE in made.us.asked()


@anyhow
async def test_a_classic_member_that_joins_an_empty_group_ends_its_description() -> None:
    async with both() as made:
        client = await made.world.client(EU)
        await pushed(client, "g")
        join = {"group_id": "g", "member_id": "", "protocol_type": "consumer", "protocols": []}
        await client.asked(JOIN, 3, join)
        assert made.stored("g")[0] == EPOCH, "it has members"
        made.eu.empty.add("g")
        made.store.away = "no broker"
        assert (await client.asked(JOIN, 3, join))["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
        made.store.away = None
        assert (await client.asked(JOIN, 3, join))["error_code"] == ErrorCode.NONE
        assert made.stored("g")[0] == NONE
        await client.asked(JOIN, 3, join)
        assert [made.eu.asked().count(key) for key in (JOIN, DESCRIBE)] == [3, 4]


# Under rules


def rules(*names: str, to: Operation) -> Rules:
    return Rules((rule(ResourceType.GROUP, *names, to=to), rule(ResourceType.TOPIC, "orders", to=Operation.DESCRIBE)))


@anyhow
async def test_rules_say_who_may_push() -> None:
    async with both() as made:
        made.world.listener.security.rules = rules("g", to=Operation.READ)
        client = await made.world.client(EU)
        assert await pushed(client, "g") == ErrorCode.NONE
        assert await status(client, "g") == 3
        made.eu.topic = "secret"  # who pushes need not see the topics; who reads must
        assert await pushed(client, "g") == ErrorCode.NONE
        (told,) = (await client.asked(DESCRIBE, 1, describe_of("g")))["groups"]
        assert told["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert told["topology_description"] is None
        with capture_logs() as logs:
            assert await pushed(client, "other") == ErrorCode.GROUP_AUTHORIZATION_FAILED
        refused = [each for each in logs if each["event"] == "request denied"]
        assert [(each["api"], each["operation"], each["resource"]) for each in refused] == [
            (PUSH.name, "READ", "other")
        ]
        assert made.eu.asked().count(PUSH) == 0


@anyhow
async def test_who_may_see_a_group_may_not_push() -> None:
    async with both() as made:
        made.world.listener.security.rules = rules("g", "us-g", to=Operation.DESCRIBE)
        eu, us = await made.world.client(EU), await made.world.client(US)
        assert await pushed(eu, "g") == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert await pushed(us, "us-g") == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert await status(eu, "g") == 1
        assert made.us.asked() == []


@anyhow
async def test_rules_say_whose_descriptions_are_deleted() -> None:
    async with both() as made:
        made.world.listener.security.rules = rules("g", "kept", to=Operation.READ)
        client = await made.world.client(EU)
        for group in ("g", "kept"):
            assert await pushed(client, group) == ErrorCode.NONE
            made.eu.empty.add(group)
        made.world.listener.security.rules = rules("g", to=Operation.DELETE)
        made.world.listener.rules_changed()
        results = (await client.asked(DELETE, 3, {"groups_names": ["g", "kept"]}))["results"]
        codes = {each["group_id"]: each["error_code"] for each in results}
        assert codes == {"g": ErrorCode.NONE, "kept": ErrorCode.GROUP_AUTHORIZATION_FAILED}
        assert [made.stored(group)[0] for group in ("g", "kept")] == [NONE, EPOCH]


@anyhow
async def test_a_group_of_another_home_is_not_coordinated_there() -> None:
    async with both() as made:
        made.world.listener.security.rules = rules("us-g", to=Operation.ALL)
        client = await made.world.client(EU)
        assert await pushed(client, "us-g") == ErrorCode.NOT_COORDINATOR
        assert made.stored("us-g") == [NONE, NONE]


@anyhow
async def test_a_coordinator_that_cannot_be_asked(monkeypatch: Any) -> None:
    async with both() as made:
        made.world.listener.security.rules = rules("g", to=Operation.READ)
        client = await made.world.client(EU)
        await pushed(client, "g")

        async def nobody(*_: Any) -> Any:
            raise TimeoutError

        monkeypatch.setattr(made.world.leaves.default.nodes, "ask", nobody)
        assert await pushed(client, "g") == ErrorCode.COORDINATOR_NOT_AVAILABLE


@anyhow
async def test_a_cluster_that_no_route_leads_to_any_more() -> None:
    async with both() as made:
        _, us = made.world.leaves
        made.topologies.leave(us.nodes.cluster)
        assert [each.cluster for each in made.topologies] == ["eu"]
        again = made.topologies.of(us.nodes)
        assert [each.cluster for each in made.topologies] == ["eu", "us"]
        assert again is [*made.topologies][1]
