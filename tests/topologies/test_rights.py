"""The rights of each user about descriptions: at a broker with ACLs that keeps them, and at a mesh over a broker that
does not, with the same ACLs at the cluster, or the same rules in the mesh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.integration.jars import KAFKA_VERSION, NEWEST_BROKERS, kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually, free_port
from tests.integration.relay_mesh import RelayMesh
from tests.router.authorizer.bed import broker_properties
from tests.router.authorizer.rules import MINE, RULES, SECRET, USERS, bindings
from tests.router.authorizer.sides import PASSWORD, Client
from tests.topologies.asking import EPOCH, description, topology
from tests.topologies.clusters import PLUGIN, STORE, STREAMS

pytestmark = [
    pytest.mark.long,
    pytest.mark.deep,
    pytest.mark.kafka,
    pytest.mark.xdist_group("topologies"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]

MEMBER: Final = "member-1"
PUSH = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
Codes = dict[tuple[str, str], tuple[int, bool]]
"""The error for each request and user, and whether its answer has a description."""


@contextmanager
def cluster_of(folder: Path, version: str, more: Mapping[str, str]) -> Iterator[tuple[KafkaCluster, str]]:
    """A cluster with ACLs, and with a listener for clients that log in."""
    sasl = free_port()
    cluster = KafkaCluster("eu", kafka_jars(version), folder, {**STREAMS, **broker_properties(sasl), **more})
    try:
        for name in (MINE, SECRET):
            cluster.create_topic(name, 1)
        admin = cluster.admin()  # must outlive its futures
        for future in admin.create_acls(list(bindings())).values():
            future.result(20)
        yield cluster, f"127.0.0.1:{sasl}"
    finally:
        cluster.kill()


def mesh_of(
    cluster: KafkaCluster,
    folder: Path,
    listener: Mapping[str, Any] = MappingProxyType({}),
    relay: Mapping[str, Any] = MappingProxyType({}),
    upstream: Mapping[str, Any] = MappingProxyType({}),
) -> RelayMesh:
    """upstream: further keys of the relay's cluster. The store is in the same cluster, where the mesh may do
    everything."""
    store = {"store": {"cluster": "store", "topic": STORE, "create": True}}
    servers = {"bootstrap_servers": cluster.bootstrap_servers}
    clusters = [{"name": "eu", **servers, **upstream}, {"name": "store", **servers}]
    described = {"topology_descriptions": {"plugin": "store"}, **listener}
    folder.mkdir()
    process = {**store, "clusters": clusters}
    return RelayMesh(folder, cluster.bootstrap_servers, relay=relay, listener=described, process=process)


def joining(group: str) -> Tree:
    tasks: Tree = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "client_tags": []}
    return {
        "group_id": group,
        "member_id": MEMBER,
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "process_id": "p",
        "topology": topology(topics=[MINE, SECRET]),
        **tasks,
    }


def pushing(group: str) -> Tree:
    return {
        "group_id": group,
        "member_id": MEMBER,
        "topology_epoch": EPOCH,
        "topology_description": description(),
    }


def asked(client: Client, api_key: ApiKey, version: int, request: Tree) -> Tree:
    answer = client.ask(api_key, version, request)
    assert answer is not None, f"{api_key.name} closed the connection"
    return answer


def questions(endpoint: str, trusted: str) -> Codes:
    """The same requests for each user. trusted: the listener of the same cluster that lets clients do everything."""
    anybody, found = Client(trusted, None), Codes()
    _begin(anybody)
    for user in USERS:
        client = Client(endpoint, user)
        pushed = asked(client, PUSH, 0, pushing(MINE))
        found["push", user] = pushed["error_code"], False
        for name, is_included in (("describe", True), ("describe without", False)):
            tree = {"group_ids": [MINE], "include_topology_description": is_included}
            (group,) = asked(client, ApiKey.STREAMS_GROUP_DESCRIBE, 1, tree)["groups"]
            found[name, user] = group["error_code"], group["topology_description"] is not None
        client.close()
    left = asked(anybody, ApiKey.STREAMS_GROUP_HEARTBEAT, 1, {**joining(MINE), "member_epoch": -1, "topology": None})
    assert left["error_code"] == ErrorCode.NONE
    for user in USERS:  # the last one that may is the only one that finds it
        client = Client(endpoint, user)
        (result,) = asked(client, ApiKey.DELETE_GROUPS, 3, {"groups_names": [MINE]})["results"]
        found["delete", user] = result["error_code"], False
        client.close()
    anybody.close()
    return found


def _begin(anybody: Client) -> None:
    """The group has a member, and a description."""

    def has_joined() -> bool:
        asked(anybody, ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [MINE]})
        return bool(asked(anybody, ApiKey.STREAMS_GROUP_HEARTBEAT, 1, joining(MINE))["error_code"] == ErrorCode.NONE)

    def has_pushed() -> bool:
        return bool(asked(anybody, PUSH, 0, pushing(MINE))["error_code"] == ErrorCode.NONE)

    eventually("a coordinator", has_joined, interval=0.1)
    eventually("descriptions", has_pushed, interval=0.1)


def test_each_user_may_do_what_a_broker_lets_it_do(tmp_path: Path) -> None:
    plugin = {"group.streams.topology.description.plugin.class": PLUGIN}
    with cluster_of(tmp_path / "with", NEWEST_BROKERS, plugin) as (cluster, door):
        expected = questions(door, cluster.bootstrap_servers)
    assert {code for code, _ in expected.values()} >= {ErrorCode.NONE, ErrorCode.GROUP_AUTHORIZATION_FAILED}
    with ExitStack() as stack:
        cluster, sasl = stack.enter_context(cluster_of(tmp_path / "without", KAFKA_VERSION, {}))

        def made(name: str, *more: Mapping[str, Any]) -> RelayMesh:
            mesh = mesh_of(cluster, tmp_path / name, *more)
            stack.callback(mesh.kill)
            return mesh

        trusting = made("trusting").address_of(1)
        users = {"mechanisms": ["PLAIN"], "users": [{"name": name, "password": PASSWORD} for name in USERS]}
        ruled = made("ruled", {"sasl": users, "authorization": {"rules": RULES}})
        assert questions(ruled.address_of(1), trusting) == expected
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "describer", "sasl.password": PASSWORD}
        properties = {"security.protocol": "SASL_PLAINTEXT", **login}
        upstream = {"bootstrap_servers": sasl, "properties": properties}
        passing = made("passing", {}, {"authentication": "upstream"}, upstream)
        found = questions(passing.address_of(1), trusting)
        # Of a group with a topic that they must not see, the cluster does not say whether they may read it.
        for user in ("reader", "owner"):
            assert found.pop(("push", user)) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False)
            assert expected.pop(("push", user)) == (ErrorCode.NONE, False)
        assert found == expected
