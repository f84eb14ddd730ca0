"""The same requests to a broker that keeps descriptions and to a mesh over one that does not: the answers are equal,
field by field, but for what the version of the broker says of other things."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.topologies.asking import Asking, description, node
from tests.topologies.clusters import cluster_with, cluster_without, mesh_of

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("topologies")]

OF_THE_BROKER: Final = frozenset(
    {"acceptable_recovery_lag", "task_offset_interval_ms", "assignor_name", "assignment_epoch"}
)
"""Before 4.4 brokers do not say the first three, and keep the assignment's epoch when the last member leaves."""
APIS: Final = (
    ApiKey.DELETE_GROUPS,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
)


def with_node_type(number: int) -> Tree:
    tree = description()
    tree["subtopologies"][0]["nodes"][0]["node_type"] = number
    return tree


def with_global_store(source: int, processor: int) -> Tree:
    store = {"source": node("g", source), "processor": node("p", processor)}
    return {"subtopologies": [], "global_stores": [store]}


def answers(ask: Asking) -> Iterator[tuple[str, Any]]:
    """What each request of a life of two groups is answered."""
    versions = ask.versions()
    yield "versions", [versions[each] for each in APIS]
    joined = ask.join("g")
    yield "join", joined
    yield "it is asked once", ask.beat("g", member_epoch=joined["member_epoch"])
    yield "a heartbeat of an epoch that is none", ask.beat("g", member_epoch=99)
    yield "join with v0", ask.join("plain", 0)
    yield "not stored, and unknown", ask.describe("g", "nobody's", "")
    yield "not asked for", ask.describe("g", is_included=False)
    yield "no member", ask.push("g", member_id="")
    yield "no group", ask.push("")
    yield "an unknown group", ask.push("nobody's")
    yield "an unknown member", ask.push("g", member_id="another")
    yield "another epoch", ask.push("g", topology_epoch=9)
    yield (
        "another epoch with what is no description",
        ask.push("g", topology_epoch=9, topology_description=with_node_type(9)),
    )
    for number in (0, 4, -1):
        yield f"node type {number}", ask.push("g", topology_description=with_node_type(number))
    for types in ((2, 2), (1, 3), (1, 9)):
        yield f"global store of {types}", ask.push("g", topology_description=with_global_store(*types))
    yield "still not stored", ask.describe("g")
    yield "push", ask.push("g")
    yield "stored", ask.describe("g", "plain")
    yield "stored, and not asked for", ask.describe("g", is_included=False)
    yield "describe with v0", ask.describe("g", version=0)
    yield "the same again", ask.push("g")
    other = {
        "subtopologies": [{"subtopology_id": "é", "nodes": [node("x", 2, stores=["s", "s"])]}],
        "global_stores": [],
    }
    yield "another one of the same epoch", ask.push("g", topology_description=other)
    yield "described anew", ask.describe("g")
    for version in (0, 1, 2, 3):
        yield f"a group with members, v{version}", ask.delete("g", version=version)
    yield "leave", ask.leave("g")
    yield "a push of who has left", ask.push("g")
    yield "it outlives its members", ask.describe("g")
    yield (
        "deletion of several",
        sorted(ask.delete("nobody's", "g", "plain", "")["results"], key=lambda each: each["group_id"]),
    )
    yield "gone", ask.describe("g")
    yield "join again", ask.join("g")
    yield "nothing is left", ask.describe("g")
    yield "push again", ask.push("g")
    yield "leave again", ask.leave("g")
    yield "deletion with v1", ask.delete("g", version=1)
    yield "gone again", ask.describe("g")


def comparable(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: comparable(value) for name, value in answer.items() if name not in OF_THE_BROKER}
    return [comparable(each) for each in answer] if isinstance(answer, list) else answer


def test_a_mesh_answers_as_a_broker_does(tmp_path_factory: pytest.TempPathFactory) -> None:
    with cluster_with(tmp_path_factory.mktemp("with")) as cluster:
        expected = life_at(cluster.bootstrap_servers)
    with (
        cluster_without(tmp_path_factory.mktemp("without")) as cluster,
        mesh_of(cluster, tmp_path_factory.mktemp("mesh")) as mesh,
    ):
        got = life_at(mesh.address_of(1))
    assert [name for name, _ in got] == [name for name, _ in expected]
    different = [
        f"{name}:\n  broker {of_broker}\n  mesh   {of_mesh}"
        for (name, of_broker), (_, of_mesh) in zip(expected, got, strict=True)
        if of_broker != of_mesh
    ]
    assert not different, "\n".join(different)
    assert len(expected) > 30


def life_at(endpoint: str) -> list[tuple[str, Any]]:
    ask = Asking(endpoint)
    ask.wait_for_coordinator()
    ask.wait_for_store()
    try:
        return [(name, comparable(answer)) for name, answer in answers(ask)]
    finally:
        ask.close()
