"""Answers of several workers as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mesh.supervision.merging import (
    longest_held,
    merged_drain,
    merged_leases,
    merged_metrics,
    merged_readiness,
    merged_replay,
    merged_replays,
    merged_status,
)


def partition(number: int, standing: str, lag: int | None) -> dict[str, Any]:
    return {"topic": "orders", "partition": number, "standing": standing, "lag": lag}


def pooled(members: list[str], partitions: list[dict[str, Any]], state: str = "Stable") -> dict[str, Any]:
    pool = {
        "group": "billing",
        "state": state,
        "member_count": len(members),
        "lag": 0,
        "members": [{"id": each} for each in members],
        "partitions": partitions,
        "replays": [],
    }
    return {
        "virtual_clusters": [{"name": "shop", "connections": len(members), "pools": [pool]}],
        "configuration": {"hash": "1"},
    }


def test_a_pool_has_the_members_of_all_and_each_partition_as_its_worker_has_it() -> None:
    first = pooled(["a"], [partition(0, "active", 3), partition(1, "absent", None)])
    second = pooled(["b", "c"], [partition(0, "absent", None), partition(1, "active", 4)])
    for answers in ({1: first, 2: second}, {2: second, 1: first}):
        (cluster,) = merged_status(answers)["virtual_clusters"]
        (pool,) = cluster["pools"]
        assert cluster["connections"] == pool["member_count"] == 3
        assert pool["lag"] == 7
        assert {(each["id"], each["worker"]) for each in pool["members"]} == {("a", 1), ("b", 2), ("c", 2)}
        assert [(each["partition"], each["standing"], each["worker"]) for each in pool["partitions"]] == [
            (0, "active", 1),
            (1, "active", 2),
        ]


def replay(id: str, partition: str, left: int, state: str = "running") -> dict[str, Any]:
    return {
        "virtual_cluster": "shop",
        "group": "billing",
        "replay": id,
        "state": state,
        "offsets": 10,
        "left": left,
        "delivered_and_not_acknowledged": 1,
        "partitions": [{"partition": partition, "left": left}],
    }


def test_a_replay_is_that_of_all_workers_by_its_name() -> None:
    one, other = replay("a", "eu/orders-1", 3, "cancelled"), replay("a", "eu/orders-0", 4)
    merged, alone = merged_replays([one, replay("b", "eu/orders-1", 5), other])
    assert (merged["offsets"], merged["left"], merged["delivered_and_not_acknowledged"]) == (20, 7, 2)
    assert merged["state"] == "running"
    assert [each["partition"] for each in merged["partitions"]] == ["eu/orders-0", "eu/orders-1"]
    assert (alone["replay"], alone["left"]) == ("b", 5)
    assert merged_replay([one])["state"] == "cancelled"


def test_only_what_no_worker_has_of_it_is_elsewhere() -> None:
    one = {**replay("a", "eu/orders-1", 3), "elsewhere": ["eu/orders-0", "eu/orders-2"]}
    other = {**replay("a", "eu/orders-0", 3), "elsewhere": ["eu/orders-1", "eu/orders-2"]}
    assert merged_replay([one, other])["elsewhere"] == ["eu/orders-2"]


def test_a_pool_that_one_has() -> None:
    empty: dict[str, Any] = {
        "virtual_clusters": [{"name": "shop", "connections": 0, "pools": []}],
        "configuration": {},
    }
    (cluster,) = merged_status({1: empty, 2: pooled(["b"], [partition(0, "absent", None)])})["virtual_clusters"]
    (pool,) = cluster["pools"]
    assert pool["partitions"] == [{**partition(0, "absent", None), "worker": None}]
    assert pool["state"] == "Stable"


def node(id: int, requests: int, problem: str | None = None) -> dict[str, Any]:
    return {"node": id, "legs": 1, "requests": requests, "bytes_in": 2, "bytes_out": 3, "problem": problem}


def test_nodes_of_a_relay_have_the_traffic_of_all() -> None:
    relays = [
        {"name": "all", "connections": 2, "relay": {"cluster": "eu", "nodes": nodes}}
        for nodes in ([node(1, 10)], [node(1, 5, "down"), node(2, 1)])
    ]
    answers = {
        number: {"virtual_clusters": [relay], "configuration": {}} for number, relay in enumerate(relays, start=1)
    }
    (cluster,) = merged_status(answers)["virtual_clusters"]
    assert cluster["relay"]["nodes"] == [
        {**node(1, 15, "down"), "legs": 2, "bytes_in": 4, "bytes_out": 6},
        node(2, 1),
    ]


def test_leaves_of_a_router() -> None:
    def routed(requests: int) -> dict[str, Any]:
        leaves = [{"leaf": leaf, "path": [path], "nodes": [node(7, requests)]} for leaf, path in ((0, "eu"), (0, "us"))]
        router = {"leaves": leaves, "routes": [{"route": "eu", "connections": requests}]}
        return {"virtual_clusters": [{"name": "all", "connections": 1, "router": router}], "configuration": {}}

    (cluster,) = merged_status({1: routed(1), 2: routed(2)})["virtual_clusters"]
    leaves = cluster["router"]["leaves"]
    assert [(each["path"], each["nodes"][0]["requests"]) for each in leaves] == [(["eu"], 3), (["us"], 3)]
    assert cluster["router"]["routes"] == [{"route": "eu", "connections": 3}]


def test_all_are_ready_or_it_says_which_is_not() -> None:
    ready: dict[str, Any] = {"problems": [], "degraded": []}
    assert merged_readiness({1: ready, 2: ready}, []) == {"ready": True, "problems": [], "degraded": []}
    other = {"problems": ["stopping"], "degraded": [{"problem": "unreachable"}]}
    found = merged_readiness({1: ready, 2: other}, [3])
    assert found["problems"] == ["worker 2: stopping", "worker 3: it does not answer"]
    assert found["degraded"] == [{"problem": "unreachable", "worker": 2}]
    assert not found["ready"]


@pytest.mark.parametrize(
    ("states", "expected"),
    [(("drained", "drained"), "drained"), (("drained", "draining"), "draining"), (("serving", "drained"), "serving")],
)
def test_a_drain_is_as_far_as_the_last(states: tuple[str, str], expected: str) -> None:
    def answer(state: str) -> Mapping[str, Any]:
        return {"group": "a", "state": state, "held": 2, "members": 1, "leaving": state == "serving"}

    found = merged_drain({number: answer(state) for number, state in enumerate(states, start=1)})
    assert (found["state"], found["held"], found["members"]) == (expected, 4, 2)
    assert found["leaving"] is ("serving" in states)


def test_leases_say_whose_they_are() -> None:
    found = merged_leases({1: {"leases": [{"lease": "a"}]}, 2: {"leases": [{"lease": "b"}]}})
    assert found == {"leases": [{"lease": "a", "worker": 1}, {"lease": "b", "worker": 2}]}


def test_the_record_that_is_held_for_longest() -> None:
    short = {"offset": 1, "places": [{"held_seconds": 1.0}]}
    long = {"offset": 2, "places": [{"held_seconds": None}, {"held_seconds": 9.0}]}
    assert longest_held({1: short, 2: long, 3: {"offset": 3, "places": []}}) == long


def test_every_sample_says_its_worker() -> None:
    text = (
        '# HELP records_total Records.\n# TYPE records_total counter\nrecords_total{topic="a\\"b"} 3.0\n'
        "# HELP lag Lag.\n# TYPE lag gauge\nlag 1.0\n"
        '# HELP took Took.\n# TYPE took histogram\ntook_bucket{le="1.0"} 2.0\ntook_bucket{le="+Inf"} 2.0\n'
        "took_count 2.0\ntook_sum 0.5\n"
    )
    merged = merged_metrics({1: text, 2: text.replace("3.0", "4.0")}).decode()
    families = {family.name: family for family in text_string_to_metric_families(merged)}
    assert {name: family.type for name, family in families.items()} == {
        "records": "counter",
        "lag": "gauge",
        "took": "histogram",
    }
    samples = {(each.name, each.labels["worker"]): each.value for each in families["records"].samples}
    assert samples == {("records_total", "1"): 3.0, ("records_total", "2"): 4.0}
    assert {each.labels["topic"] for each in families["records"].samples} == {'a"b'}
    assert merged.count("# TYPE took histogram") == 1
