"""The same requests to a broker that keeps descriptions and to a mesh over one that does not, or over both: the answers
are equal, field by field, except for fields that depend on the version of the broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.integration.jars import FIRST_OF_STREAMS
from tests.integration.kafka import KafkaCluster
from tests.router.union_mesh import UnionMesh
from tests.topologies.asking import Asking, description, node
from tests.topologies.clusters import ChoiceMesh, cluster_with, cluster_without, mesh_of, union_of

Life: TypeAlias = list[tuple[str, Any]]
"""Requests by name, and their answers."""

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("topologies")]

OF_THE_BROKER: Final = frozenset(
    {"acceptable_recovery_lag", "task_offset_interval_ms", "assignor_name", "assignment_epoch"}
)
"""Brokers before 4.4 do not report the first three, and keep the assignment's epoch when the last member leaves."""
APIS: Final = (
    ApiKey.DELETE_GROUPS,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
)


def with_node_type(number: int, prefix: str = "") -> Tree:
    tree = description(prefix)
    tree["subtopologies"][0]["nodes"][0]["node_type"] = number
    return tree


def with_global_store(source: int, processor: int) -> Tree:
    store = {"source": node("g", source), "processor": node("p", processor)}
    return {"subtopologies": [], "global_stores": [store]}


def answers(ask: Asking) -> Iterator[tuple[str, Any]]:
    """The answers to the requests of the lives of two groups. Their names begin with the prefix of the client."""
    g, plain, nobodys = (ask.prefix + each for each in ("g", "plain", "nobody's"))
    versions = ask.versions()
    yield "versions", [versions[each] for each in APIS]
    joined = ask.join(g)
    yield "join", joined
    yield "it is asked once", ask.beat(g, member_epoch=joined["member_epoch"])
    yield "a heartbeat of an epoch that is none", ask.beat(g, member_epoch=99)
    yield "join with v0", ask.join(plain, 0)
    yield "not stored, and unknown", ask.describe(g, nobodys, "")
    yield "not asked for", ask.describe(g, is_included=False)
    yield "no member", ask.push(g, member_id="")
    yield "no group", ask.push("")
    yield "an unknown group", ask.push(nobodys)
    yield "an unknown member", ask.push(g, member_id="another")
    yield "another epoch", ask.push(g, topology_epoch=9)
    yield (
        "another epoch with what is no description",
        ask.push(g, topology_epoch=9, topology_description=with_node_type(9, ask.prefix)),
    )
    for number in (0, 4, -1):
        yield f"node type {number}", ask.push(g, topology_description=with_node_type(number, ask.prefix))
    for types in ((2, 2), (1, 3), (1, 9)):
        yield f"global store of {types}", ask.push(g, topology_description=with_global_store(*types))
    yield "still not stored", ask.describe(g)
    yield "push", ask.push(g)
    yield "stored", ask.describe(g, plain)
    yield "stored, and not asked for", ask.describe(g, is_included=False)
    yield "describe with v0", ask.describe(g, version=0)
    yield "the same again", ask.push(g)
    other = {
        "subtopologies": [{"subtopology_id": "é", "nodes": [node("x", 2, stores=["s", "s"])]}],
        "global_stores": [],
    }
    yield "another one of the same epoch", ask.push(g, topology_description=other)
    yield "described anew", ask.describe(g)
    for version in (0, 1, 2, 3):
        yield f"a group with members, v{version}", ask.delete(g, version=version)
    yield "leave", ask.leave(g)
    yield "a push of who has left", ask.push(g)
    yield "it outlives its members", ask.describe(g)
    yield (
        "deletion of several",
        sorted(ask.delete(nobodys, g, plain, "")["results"], key=lambda each: each["group_id"]),
    )
    yield "gone", ask.describe(g)
    yield "join again", ask.join(g)
    yield "nothing is left", ask.describe(g)
    yield "push again", ask.push(g)
    yield "leave again", ask.leave(g)
    yield "deletion with v1", ask.delete(g, version=1)
    yield "gone again", ask.describe(g)
    yield "join a third time", ask.join(g)
    yield "push a third time", ask.push(g)
    yield "a classic member joins a group with members", classic(ask.join_classic(g))
    yield "which keeps its description", ask.describe(g)
    yield "leave a third time", ask.leave(g)
    joined = ask.join_classic(g)
    yield "a classic member joins an empty group", classic(joined)
    yield "which is of another kind", ask.describe(g)
    yield "the classic member leaves", ask.leave_classic(g, joined["member_id"])
    yield "streams members again", ask.join(g)
    yield "have not described it", ask.describe(g)
    yield "leave a fourth time", ask.leave(g)
    yield "leave the other group", ask.leave(plain)
    yield "deletion of what is left", sorted(ask.delete(g, plain)["results"], key=lambda each: each["group_id"])


def classic(answer: Tree) -> Tree:
    """The answer to a JoinGroup without the parts that are new each time."""
    names = {name: bool(answer[name]) for name in ("member_id", "leader")}
    return {**answer, **names, "members": len(answer["members"])}


def comparable(answer: Any, prefix: str) -> Any:
    """An answer without the prefix."""
    match answer:
        case dict():
            return {name: comparable(value, prefix) for name, value in answer.items() if name not in OF_THE_BROKER}
        case list():
            return [comparable(each, prefix) for each in answer]
        case str():
            return answer.replace(prefix, "") if prefix else answer
        case _:
            return answer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """A cluster without descriptions, eu, and one with them, us."""
    with (
        cluster_without(tmp_path_factory.mktemp("without")) as eu,
        cluster_with(tmp_path_factory.mktemp("with")) as us,
    ):
        yield eu, us


@pytest.fixture(scope="module")
def expected(pair: tuple[KafkaCluster, KafkaCluster]) -> Life:
    return life_at(pair[1].bootstrap_servers)


@pytest.fixture(scope="module")
def union(pair: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnionMesh]:
    with union_of(*pair, tmp_path_factory.mktemp("union")) as mesh:
        yield mesh


@pytest.mark.smoke
def test_a_relay_answers_as_a_broker_does(
    pair: tuple[KafkaCluster, KafkaCluster], expected: Life, tmp_path: Path
) -> None:
    with mesh_of(pair[0], tmp_path) as mesh:
        assert_equal(life_at(mesh.address_of(1)), expected)
    assert len(expected) > 50


@pytest.mark.long
@pytest.mark.deep
def test_a_relay_of_the_first_version_of_streams_answers_as_a_broker_does(expected: Life, tmp_path: Path) -> None:
    with (
        cluster_without(tmp_path / "cluster", FIRST_OF_STREAMS) as cluster,
        mesh_of(cluster, tmp_path / "mesh") as mesh,
    ):
        assert_equal(life_at(mesh.address_of(1)), expected)


def test_a_relay_under_rules_answers_as_a_broker_does(
    pair: tuple[KafkaCluster, KafkaCluster], expected: Life, tmp_path: Path
) -> None:
    rules = [{"principals": ["User:*"], "topics": ["*"], "groups": ["*"], "cluster": True, "operations": ["all"]}]
    with mesh_of(pair[0], tmp_path, rules=rules) as mesh:
        assert_equal(life_at(mesh.address_of(1)), expected)


def test_a_union_answers_for_a_home_without_descriptions_as_a_broker_does(union: UnionMesh, expected: Life) -> None:
    assert_equal(life_at(union.address_of("eu", 1)), expected)


def test_a_union_passes_on_what_a_home_with_descriptions_answers(union: UnionMesh, expected: Life) -> None:
    """us has other names for the topics. A group without a name has its home at eu."""
    got = life_at(union.address_of("us", 1), "us.")
    assert_equal(without_nameless(got), without_nameless(expected))


def test_clients_that_are_led_elsewhere_see_the_same_groups(
    pair: tuple[KafkaCluster, KafkaCluster], expected: Life, tmp_path: Path
) -> None:
    mesh = ChoiceMesh(tmp_path, *pair)
    try:
        assert_equal(life_at(mesh.address_of("all/eu", 1)), expected)
        pushing = Asking(mesh.address_of("all/eu", 1))
        looking = Asking(mesh.address_of("one", 1), "member-2", client_id=b"one-looks")
        pushing.join("shared")
        assert pushing.push("shared")["error_code"] == ErrorCode.NONE
        assert looking.describe("shared")["groups"][0]["topology_description"] is not None
        assert not looking.join("shared")["topology_description_required"], "it is the same group"
        for each in (pushing, looking):
            each.leave("shared")
        assert looking.delete("shared")["results"][0]["error_code"] == ErrorCode.NONE
        (front,) = mesh.status()["virtual_clusters"]
        assert front["streams"]["plugin"] == "store"
        assert not [each for each in front["streams"]["groups"] if each["stored"] > 0]
        assert mesh.metric("kafka_mesh_streams_group_topology_description_delete_success_total") > 0
        for each in (pushing, looking):
            each.close()
    finally:
        mesh.kill()


def without_nameless(life: Life) -> Life:
    return [(name, _named(answer)) for name, answer in life if name != "no group"]


def _named(answer: Any) -> Any:
    match answer:
        case dict():
            return {name: _named(value) for name, value in answer.items()}
        case list():
            return [_named(each) for each in answer if not (isinstance(each, dict) and each.get("group_id") == "")]
        case _:
            return answer


def assert_equal(got: Life, expected: Life) -> None:
    assert [name for name, _ in got] == [name for name, _ in expected]
    different = [
        f"{name}:\n  broker {of_broker}\n  mesh   {of_mesh}"
        for (name, of_broker), (_, of_mesh) in zip(expected, got, strict=True)
        if of_broker != of_mesh
    ]
    assert not different, "\n".join(different)


def life_at(endpoint: str, prefix: str = "") -> Life:
    ask = Asking(endpoint, prefix=prefix)
    ask.wait_for_coordinator()
    ask.wait_for_store()
    try:
        return [(name, comparable(answer, prefix)) for name, answer in answers(ask)]
    finally:
        ask.close()
