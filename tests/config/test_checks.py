from __future__ import annotations

from pathlib import Path

import pytest

from mesh.config import checks
from tests.config.files import add_virtual_cluster, mistakes, pool, small

_POOL = "virtual_clusters[0].target.pool"


def test_names_are_unique(tmp_path: Path) -> None:
    tree = small()
    tree["clusters"][1]["name"] = "eu"
    pool(tree)["topics"] = [{"prefix": "", "cluster": "eu"}]
    add_virtual_cluster(tree, 19_192, upstream_group_prefix="b-")
    pool(tree)["upstream_group_prefix"] = "a-"
    tree["virtual_clusters"][1]["name"] = "orders"
    assert mistakes(tmp_path, tree) == [
        "clusters[1].name: 'eu': a name of its own; clusters[0].name is the same",
        "virtual_clusters[1].name: 'orders': a name of its own; virtual_clusters[0].name is the same",
    ]


def test_clusters_are_defined(tmp_path: Path) -> None:
    tree = small()
    pool(tree)["topics"][0]["from"][1]["cluster"] = "mars"
    pool(tree)["topics"][1]["cluster"] = "venus"
    assert mistakes(tmp_path, tree) == [
        f"{_POOL}.topics[0].from[1].cluster: 'mars': one of the clusters defined: eu, us",
        f"{_POOL}.topics[1].cluster: 'venus': one of the clusters defined: eu, us",
    ]


def test_the_cluster_of_the_store_is_defined(tmp_path: Path) -> None:
    tree = small()
    tree["store"] = {"cluster": "mars", "topic": "store"}
    assert mistakes(tmp_path, tree) == ["store.cluster: 'mars': one of the clusters defined: eu, us"]


def test_the_cluster_of_the_journal_is_defined(tmp_path: Path) -> None:
    tree = small()
    tree["journal"] = {"cluster": "mars", "topic": "journal"}
    assert mistakes(tmp_path, tree) == ["journal.cluster: 'mars': one of the clusters defined: eu, us"]


def test_dead_letters_do_not_go_where_they_came_from(tmp_path: Path) -> None:
    tree = small()
    pool(tree)["dead_letters"] = {"topic": "orders"}
    assert mistakes(tmp_path, tree) == [
        f"{_POOL}.dead_letters.topic: 'orders': a topic that is no source itself",
    ]


@pytest.mark.parametrize("key", ["topics", "groups"])
def test_lists_are_not_empty(tmp_path: Path, key: str) -> None:
    tree = small()
    pool(tree)[key] = []
    assert mistakes(tmp_path, tree) == [f"{_POOL}.{key}: (an empty list): at least one"]


def test_a_topic_without_sources(tmp_path: Path) -> None:
    tree = small()
    pool(tree)["topics"][0]["from"] = []
    assert mistakes(tmp_path, tree) == [f"{_POOL}.topics[0].from: (an empty list): at least one"]


@pytest.mark.parametrize(
    ("prefixes", "dead"),
    [
        (["a.", "b."], []),
        (["a.b.", "a.", ""], []),
        (["a.", "a.b."], [1]),
        (["", "a.", "b."], [1, 2]),
        (["a.", "a."], [1]),
        (["a", "b", "ab", "c"], [2]),
    ],
)
def test_prefixes_that_can_never_match(tmp_path: Path, prefixes: list[str], dead: list[int]) -> None:
    tree = small()
    pool(tree)["topics"] = [{"prefix": prefix, "cluster": "eu"} for prefix in prefixes]
    found = mistakes(tmp_path, tree)
    assert [each.split(":")[0] for each in found] == [f"{_POOL}.topics[{index}].prefix" for index in dead]
    assert all("comes first and matches all of its topics" in each for each in found)


def test_topics_and_sources_stand_once(tmp_path: Path) -> None:
    tree = small()
    topics = pool(tree)["topics"]
    topics[0]["from"].append({"cluster": "eu", "topic": "orders"})
    topics.append({"name": "orders", "from": [{"cluster": "eu", "topic": "orders"}]})
    assert mistakes(tmp_path, tree) == [
        f"{_POOL}.topics[0].from[2]: 'eu/orders': once in a topic; {_POOL}.topics[0].from[0] is the same",
        f"{_POOL}.topics[2].name: 'orders': named once; {_POOL}.topics[0] is the same",
    ]


def test_one_source_may_feed_two_topics(tmp_path: Path) -> None:
    tree = small()
    pool(tree)["topics"].append({"name": "copy", "from": [{"cluster": "eu", "topic": "orders"}]})
    assert mistakes(tmp_path, tree) == []


def test_limits_are_in_order(tmp_path: Path) -> None:
    tree = small()
    pool(tree).update(
        fairness={"maximum_window": 400},
        budgets={"partition": "65MiB"},
        session_timeout={"minimum": "1h"},
    )
    assert mistakes(tmp_path, tree) == [
        f"{_POOL}.fairness.initial_window: 500: at most maximum_window, which is 400",
        f"{_POOL}.budgets.partition: '65MiB': at most pool, which is 64MiB",
        f"{_POOL}.session_timeout.minimum: '1h': at most maximum, which is 30m",
    ]


@pytest.mark.parametrize(
    ("admin", "listen", "coordinator", "wrong"),
    [
        ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", []),
        ("127.0.0.1:1", "127.0.0.1:2", None, []),
        ("127.0.0.1:3", "127.0.0.1:2", None, ["coordinator"]),
        ("127.0.0.1:2", "127.0.0.1:2", "127.0.0.1:2", ["listen", "coordinator"]),
        ("0.0.0.0:2", "127.0.0.1:2", "127.0.0.1:3", ["listen"]),
        ("127.0.0.2:2", "127.0.0.1:2", "127.0.0.1:3", []),
        ("127.0.0.1:2", "localhost:2", "127.0.0.1:3", ["listen"]),
        ("[::]:2", "127.0.0.1:2", "127.0.0.1:3", ["listen"]),
    ],
)
def test_ports_do_not_collide(
    tmp_path: Path, admin: str, listen: str, coordinator: str | None, wrong: list[str]
) -> None:
    tree = small()
    tree["admin"] = {"listen": admin}
    tree["virtual_clusters"][0] |= {"listen": listen} | ({"coordinator": coordinator} if coordinator else {})
    found = mistakes(tmp_path, tree)
    assert [each.split(":")[0] for each in found] == [f"virtual_clusters[0].{key}" for key in wrong]


def test_two_virtual_clusters_may_collide_by_a_default(tmp_path: Path) -> None:
    tree = small()
    add_virtual_cluster(tree, 19_093, upstream_group_prefix="b-")
    pool(tree)["upstream_group_prefix"] = "a-"
    assert mistakes(tmp_path, tree) == [
        "virtual_clusters[1].listen: '127.0.0.1:19093': an address of its own; "
        "virtual_clusters[0].coordinator listens on 127.0.0.1:19093"
    ]


def test_no_port_after_the_last(tmp_path: Path) -> None:
    tree = small()
    tree["virtual_clusters"][0]["listen"] = "127.0.0.1:65535"
    (found,) = mistakes(tmp_path, tree)
    assert found.startswith("virtual_clusters[0].coordinator: ")


def test_all_interfaces_need_an_advertised_address(tmp_path: Path) -> None:
    tree = small()
    tree["virtual_clusters"][0] |= {"listen": "0.0.0.0:19092", "advertise": {"coordinator": "mesh:1"}}
    (found,) = mistakes(tmp_path, tree)
    assert found.startswith("virtual_clusters[0].advertise.listen: '0.0.0.0:19092': an address that clients can")
    tree["virtual_clusters"][0]["advertise"]["listen"] = "mesh:2"
    assert mistakes(tmp_path, tree) == []
    tree["virtual_clusters"][0]["advertise"]["listen"] = "[::]:2"
    assert len(mistakes(tmp_path, tree)) == 1


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ({}, {}, True),
        ({}, {"upstream_group_prefix": "b-"}, True),
        ({"upstream_group_prefix": "a-"}, {"upstream_group_prefix": "b-"}, False),
        ({"groups": ["a"]}, {"groups": ["b"], "group_less": None}, False),
        ({"groups": ["a"]}, {"groups": ["b"]}, True),
        ({"groups": ["a"]}, {"groups": ["b"], "group_less": "b"}, False),
        ({"groups": ["a"], "group_less": None}, {"groups": ["a", "b"], "group_less": None}, True),
        ({"groups": ["a-*"]}, {"groups": ["b-*"], "group_less": None}, False),
        ({"groups": ["b-a"]}, {"groups": ["a"], "upstream_group_prefix": "b-"}, True),
        ({"groups": ["b-a"]}, {"groups": ["a*"], "upstream_group_prefix": "b-"}, True),
        ({}, {"topics": [{"prefix": "", "cluster": "apart"}]}, False),
    ],
)
def test_an_upstream_group_is_used_once(
    tmp_path: Path, first: dict[str, object], second: dict[str, object], shared: bool
) -> None:
    tree = small()
    tree["clusters"].append({"name": "apart", "bootstrap_servers": "h:1"})
    pool(tree).update(first)
    add_virtual_cluster(tree, 19_192, **second)
    found = mistakes(tmp_path, tree)
    assert len(found) == shared
    assert all("virtual_clusters[1].target.pool.upstream_group_prefix" in each for each in found)
    assert all("set upstream_group_prefix" in each for each in found)


def test_locks_of_share_members_are_within_their_bounds(tmp_path: Path) -> None:
    tree = small()
    pool(tree)["share"] = {"record_lock_duration": "5s"}
    assert mistakes(tmp_path, tree) == [
        f"{_POOL}.share.record_lock_duration: '5s': "
        "from min_record_lock_duration (15s) to max_record_lock_duration (1m)",
    ]
    pool(tree)["share"]["min_record_lock_duration"] = "1s"
    assert not mistakes(tmp_path, tree)


def test_the_share_of_each_member(tmp_path: Path) -> None:
    tree = small()
    weights = [{"client_id": "big-*", "weight": 2}, {"weight": 3}]
    pool(tree)["fairness"] = {"policy": "round_robin", "weights": weights}
    pool(tree)["limits"] = [{"group": "billing"}, {"share": "5%"}, {"client_id": "c", "share": "5 %", "in_flight": 1}]
    assert mistakes(tmp_path, tree) == [
        f"{_POOL}.fairness.weights[0].weight: 2.0: 1, unless policy is least_loaded",
        f"{_POOL}.fairness.weights[1]: (a mapping): client_id or principal, or both: a weight is relative to others",
        f"{_POOL}.fairness.weights[1].weight: 3.0: 1, unless policy is least_loaded",
        f"{_POOL}.limits[0]: (a mapping): at least one of records, bytes, in_flight, share",
        f"{_POOL}.limits[1].share: '5%': nothing without client_id or principal: "
        "a share is a part of the group's records",
    ]


@pytest.mark.parametrize("share", [0, 1, 0.0, "0%", "100%", "5", "-5%", True])
def test_what_is_no_share(tmp_path: Path, share: object) -> None:
    tree = small()
    pool(tree)["limits"] = [{"client_id": "c", "share": share}]
    (found,) = mistakes(tmp_path, tree)
    assert found.startswith(f"{_POOL}.limits[0].share: ")
    assert found.endswith(": a percentage above 0% and below 100%, such as 5%")


def test_exporting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = small()
    tree["otlp"] = {"endpoint": "http://collector:4318"}
    assert mistakes(tmp_path, tree) == ["otlp: (a mapping): at least one of spans and metrics"]
    tree["otlp"]["spans"] = {}
    monkeypatch.setattr(checks, "find_spec", lambda _: None)
    assert mistakes(tmp_path, tree) == [
        "otlp: (a mapping): nothing unless its packages are installed: pip install 'kafka-mesh[otlp]'"
    ]
