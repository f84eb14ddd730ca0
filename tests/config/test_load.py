from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mesh.config import Address, ConfigurationError, NamedTopic, PrefixRuleConfig, load
from mesh.config.mistakes import format_path
from mesh.pool.common.settings import Acknowledge, Policy
from tests.config.files import load_text, load_tree, mistakes, pool, pool_of, small


def test_defaults(tmp_path: Path) -> None:
    config = load_tree(tmp_path, small())
    virtual_cluster = config.virtual_clusters[0]
    assert config.admin is None
    assert virtual_cluster.coordinator == Address("127.0.0.1", 19093)
    assert virtual_cluster.advertised_listen == virtual_cluster.listen
    assert virtual_cluster.advertised_coordinator == virtual_cluster.coordinator
    assert pool_of(config).fairness.policy is Policy.LEAST_LOADED
    assert pool_of(config).budgets.partition == 4 << 20


def test_all_kinds_of_values(tmp_path: Path) -> None:
    tree = small()
    tree["budget"] = "64MB"
    tree["clusters"][0]["properties"] = {"client.id": "x", "socket.keepalive.enable": True, "socket.timeout.ms": 6000}
    tree["virtual_clusters"][0] |= {"coordinator": "127.0.0.1:1", "advertise": {"listen": "mesh:2"}}
    pool(tree).update(acknowledge=[{"group": "a*", "mode": "receipt"}], group_less=None, join_delay="0.1s")
    config = load_tree(tmp_path, tree)
    assert config.budget == 64_000_000
    assert config.clusters[0].client_properties() == {
        "bootstrap.servers": "127.0.0.1:9092",
        "client.id": "x",
        "socket.keepalive.enable": "true",
        "socket.timeout.ms": "6000",
    }
    virtual_cluster = config.virtual_clusters[0]
    assert virtual_cluster.advertised_listen == Address("mesh", 2)
    assert virtual_cluster.advertised_coordinator == Address("127.0.0.1", 1)
    assert pool_of(config).acknowledge[0].mode is Acknowledge.RECEIPT
    assert pool_of(config).group_less is None
    assert pool_of(config).join_delay == pytest.approx(0.1)
    named, by_prefix = pool_of(config).topics
    assert isinstance(named, NamedTopic)
    assert [source.cluster for source in named.sources] == ["eu", "us"]
    assert isinstance(by_prefix, PrefixRuleConfig)


def _set(tree: Any, path: tuple[str | int, ...], value: object) -> None:
    for part in path[:-1]:
        tree = tree[part]
    tree[path[-1]] = value


_POOL = ("virtual_clusters", 0, "target", "pool")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("budget",), "lots", "'lots': a size like 4MiB"),
        (("budget",), 0, "0: at least 1"),
        (("drain_timeout",), "2 weeks", "'2 weeks': a duration like 200ms"),
        (("drain_timeout",), "0s", "'0s': more than 0"),
        (("drain_timeout",), "25h", "'25h': at most 86400"),
        (("log",), {"level": "loud"}, "'loud': 'debug', 'info', 'warning' or 'error'"),
        (("admin",), {"listen": "9644"}, "'9644': HOST:PORT"),
        (("admin",), {}, "(missing): required: Address of /metrics"),
        (("clusters", 0, "name"), "e u", "'e u': at most 100 letters"),
        (("clusters", 0, "bootstrap_servers"), "", "'': HOST:PORT, several of them"),
        (("clusters", 0, "bootstrap_servers"), 9092, "9092: a text"),
        (("clusters", 0, "properties"), ["x"], "(a list): a mapping"),
        (("clusters", 0, "properties"), {"a.b": [1]}, "(a list): a text, a number, true or false"),
        (("clusters",), {}, "(a mapping): a list"),
        (("clusters", 0), "eu", "'eu': a mapping with the keys name, bootstrap_servers, engine, properties"),
        (("virtual_clusters", 0, "listen"), "x:notaport", "'x:notaport': HOST:PORT"),
        (("virtual_clusters", 0, "target", "mirror"), {}, "unknown key; the keys here are pool"),
        ((*_POOL, "start"), "yesterday", "'yesterday': 'earliest' or 'latest'"),
        ((*_POOL, "isolation"), None, "null: 'read_committed' or 'read_uncommitted'"),
        ((*_POOL, "max_pools"), True, "true: a whole number"),
        ((*_POOL, "max_pools"), 0, "0: at least 1"),
        ((*_POOL, "join_delay"), "11s", "'11s': at most 10"),
        ((*_POOL, "dead_letters"), {"topic": "{group}.dead"}, "'{group}.dead': a topic name, in which {topic} stands"),
        ((*_POOL, "dead_letters"), {"topic": "{topic}"}, "and which is another one"),
        ((*_POOL, "redelivery_backoff"), {"multiplier": 0.5}, "0.5: at least 1"),
        ((*_POOL, "metadata_limit"), 4_001, "4001: at most 4000"),
        ((*_POOL, "fairness"), {"maximum_window": 10**10}, "10000000000: at most 1000000000"),
        ((*_POOL, "fairness"), {"policy": "fifo"}, "'fifo': 'least_loaded', 'round_robin' or 'oldest_first'"),
        ((*_POOL, "acknowledge"), [{"group": "x", "mode": "never"}], "'never': 'commit' or 'receipt'"),
        ((*_POOL, "topics", 0), {"name": "a"}, "(missing): required: The upstream topics that feed it."),
        (
            (*_POOL, "topics", 0),
            {"cluster": "eu"},
            "(a mapping): {name, from: [{cluster, topic}]} or {prefix, cluster}",
        ),
        ((*_POOL, "topics", 0), {"name": "a", "prefix": "b"}, "or {prefix, cluster}"),
        ((*_POOL, "topics", 0, "name"), "..", "'..': a topic name"),
        ((*_POOL, "topics", 1, "prefix"), "a#", "'a#': how a topic name begins"),
        ((*_POOL, "topics", 1, "topics"), 1, "1: unknown key; the keys here are prefix, cluster"),
        ((*_POOL, "upstream_group_prefix"), "a*", "'a*': at most 100 letters"),
        ((*_POOL, "groups", 0), "team-[ab", "'team-[ab': a pattern with * ? and [ab] in it; write a literal [ as [[]"),
        ((*_POOL, "groups", 0), "[!]", "a pattern with"),
        (("virtual_cluster",), [], "(an empty list): unknown key; the keys here are admin, workers,"),
    ],
)
def test_one_wrong_value(tmp_path: Path, path: tuple[str | int, ...], value: object, said: str) -> None:
    tree = small()
    _set(tree, path, value)
    found = mistakes(tmp_path, tree)
    assert len(found) == 1, found
    assert found[0].startswith(format_path(path))
    assert said in found[0]


@pytest.mark.parametrize("pattern", ["*", "team-[ab]*", "[!a-c]", "[]]", "[!]]x", "te[[]am", "a]b"])
def test_patterns_whose_sets_are_closed(tmp_path: Path, pattern: str) -> None:
    tree = small()
    pool(tree)["groups"] = [pattern]
    assert mistakes(tmp_path, tree) == []


def test_everything_is_found_at_once(tmp_path: Path) -> None:
    """Wrong values neither prevent other checks nor make them wrong."""
    tree = small()
    tree["admin"] = {"listen": "127.0.0.1:19092"}
    tree["bugdet"] = 1
    tree["clusters"][1]["bootstrap_servers"] = None
    tree["virtual_clusters"][0] |= {"listen": "x", "coordinator": "127.0.0.1:19092"}
    pool(tree).update(start="yesterday", groups=None)
    pool(tree)["topics"][:0] = [{"prefix": "#", "cluster": "eu"}, {"prefix": "a", "cluster": "mars"}]
    del pool(tree)["topics"][2]["from"][1]["topic"]
    assert [each.split(": ")[0] for each in mistakes(tmp_path, tree)] == [
        "clusters[1].bootstrap_servers",
        "virtual_clusters[0].listen",
        "virtual_clusters[0].target.pool.topics[0].prefix",
        "virtual_clusters[0].target.pool.topics[2].from[1].topic",
        "virtual_clusters[0].target.pool.groups",
        "virtual_clusters[0].target.pool.start",
        "bugdet",
        "virtual_clusters[0].target.pool.topics[1].cluster",
        "virtual_clusters[0].target.pool.topics[3].prefix",
    ]


def test_mistakes_of_reading_hide_what_follows_from_them(tmp_path: Path) -> None:
    text = "budget: ${SIZE}\nbudget: ${SIZE}\nclusters: []\nvirtual_clusters: []\n"
    assert [each.split(": ")[0] for each in mistakes(tmp_path, text)] == [
        "budget",
        "budget",
        "budget",
        "clusters",
        "virtual_clusters",
    ]


@pytest.mark.parametrize("text", ["", "[]", "42", "clusters:", "{", "a: 1"])
def test_files_that_are_no_configuration(tmp_path: Path, text: str) -> None:
    assert mistakes(tmp_path, text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no\.yaml: No such file"):
        load(tmp_path / "no.yaml")
    with pytest.raises(ConfigurationError, match="Is a directory"):
        load(tmp_path)


_paths = st.sampled_from(
    [
        ("clusters",),
        ("clusters", 0),
        ("clusters", 1, "name"),
        ("clusters", 1, "properties"),
        ("virtual_clusters",),
        ("virtual_clusters", 0),
        ("virtual_clusters", 0, "listen"),
        ("virtual_clusters", 0, "target"),
        ("virtual_clusters", 0, "advertise"),
        _POOL,
        *((*_POOL, key) for key in ("topics", "groups", "acknowledge", "fairness", "budgets", "group_less")),
        (*_POOL, "topics", 0),
        (*_POOL, "topics", 0, "from"),
        (*_POOL, "topics", 0, "from", 1),
        (*_POOL, "topics", 1, "prefix"),
    ]
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("a:.*1${} ", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "from", "cluster", "listen", "x", "prefix"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(_paths, _values), max_size=3))
def test_whatever_is_in_the_file(tmp_path: Path, changes: list[tuple[tuple[str | int, ...], object]]) -> None:
    """Either the file loads, or every mistake names a place."""
    tree: Any = small()
    for path, value in changes:
        try:
            _set(tree, path, value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed the subject of this one
    try:
        load_tree(tmp_path, tree)
    except ConfigurationError as error:
        assert error.mistakes
        assert all(mistake.path and mistake.allowed for mistake in error.mistakes)


def test_the_models_cannot_be_changed(tmp_path: Path) -> None:
    config = load_tree(tmp_path, small())
    with pytest.raises(ValueError, match="frozen"):
        config.budget = 1


def test_long_values_are_cut(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "budget: " + "x" * 5_000 + "\nclusters: []\nvirtual_clusters: []")
    assert len(found[0]) < 200


def test_values_from_the_environment(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        """
        budget: ${BUDGET}
        clusters: [{name: eu, bootstrap_servers: "${HOST}:9092"}]
        virtual_clusters:
          - name: a
            listen: 127.0.0.1:19092
            target: {pool: {topics: [{prefix: "", cluster: eu}], groups: ["*"], max_pools: "${POOLS}"}}
        """,
        {"BUDGET": "1MiB", "HOST": "kafka", "POOLS": "7"},
    )
    assert config.budget == 1 << 20
    assert config.clusters[0].bootstrap_servers == "kafka:9092"
    assert pool_of(config).max_pools == 7
