"""The differences between two configurations, and their meaning."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from mesh.config import load
from mesh.config.changes import (
    Change,
    ClusterAdded,
    ClusterChanged,
    ClusterLoginChanged,
    ClusterRemoved,
    ProcessChanged,
    VirtualClusterAdded,
    VirtualClusterChanged,
    VirtualClusterRemoved,
    VirtualClusterRenewed,
    compare,
    fingerprint,
)
from mesh.config.model import Config
from tests.config.test_router_checks import changed as changed_router
from tests.config.test_router_checks import regions

CONFIG: dict[str, Any] = {
    "process_id": "mesh-1",
    "admin": {"listen": "127.0.0.1:9644", "token": "t" * 16},
    "clusters": [{"name": "eu", "bootstrap_servers": "eu:9092", "properties": {"sasl.password": "first"}}],
    "virtual_clusters": [
        {
            "name": "shop",
            "listen": "127.0.0.1:19092",
            "sasl": {"mechanisms": ["SCRAM-SHA-256"], "users": [{"name": "alice", "password": "sesame"}]},
            "target": {"pool": {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"]}},
        }
    ],
}
SHOP = ("virtual_clusters", 0)


def changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """The configuration with one value set, or removed if it is `...`."""
    data = deepcopy(CONFIG)
    at: Any = data
    for key in path[:-1]:
        at = at[key] if isinstance(key, int) else at.setdefault(key, {})
    if value is ...:
        del at[path[-1]]
    elif isinstance(at, list) and path[-1] == len(at):
        at.append(value)
    else:
        at[path[-1]] = value
    return data


def changes(path: tuple[str | int, ...], value: object) -> list[Change]:
    comparison = compare(Config.model_validate(CONFIG), Config.model_validate(changed(path, value)))
    assert not comparison.refused
    return list(comparison.changes)


def test_the_same_is_no_change() -> None:
    assert changes(("budget",), "512MiB") == [], "that is the default"


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        (("budget",), "1GiB", "budget"),
        (("log", "level"), "debug", "log"),
        (("drain_grace",), "3s", "drain_grace"),
        (("admin", "token"), "u" * 16, "admin.token"),
    ],
)
def test_what_concerns_the_whole_process(path: tuple[str, ...], value: object, key: str) -> None:
    assert changes(path, value) == [ProcessChanged((key,))]


def test_clusters_come_go_and_change() -> None:
    us = {"name": "us", "bootstrap_servers": "us:9092"}
    assert changes(("clusters", 1), us) == [ClusterAdded("us")]
    assert changes(("clusters", 0), us) == [ClusterRemoved("eu"), ClusterAdded("us")]
    assert changes(("clusters", 0, "properties"), {"client.id": "other"}) == [ClusterChanged("eu", ("properties",))]


def test_virtual_clusters_come_and_go() -> None:
    parts = {**CONFIG["virtual_clusters"][0], "name": "parts", "listen": "127.0.0.1:29092"}
    assert changes(("virtual_clusters", 1), parts) == [VirtualClusterAdded("parts")]
    assert changes(SHOP, parts) == [VirtualClusterRemoved("shop"), VirtualClusterAdded("parts")]


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        (("sasl", "users", 0, "password"), "other", "sasl"),
        (("limits", "connections"), 7, "limits"),
        (("advertise", "listen"), "mesh:9092", "advertise"),
        (("authorization",), {"super_users": ["User:alice"]}, "authorization"),
        (("target", "pool", "topics"), [{"prefix": "a", "cluster": "eu"}], "target.pool.topics"),
        (("target", "pool", "groups"), ["billing"], "target.pool.groups"),
    ],
)
def test_what_changes_under_clients_that_are_connected(path: tuple[str, ...], value: object, key: str) -> None:
    assert changes((*SHOP, *path), value) == [VirtualClusterChanged("shop", (key,))]


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        (("listen",), "127.0.0.1:19094", "listen"),
        (("sasl",), ..., "sasl"),
        (("tls",), {"certificate_file": "a", "key_file": "b"}, "tls"),
        (("target", "pool", "lock_timeout"), "1m", "target.pool.lock_timeout"),
        (("target", "pool", "upstream_group_prefix"), "x.", "target.pool.upstream_group_prefix"),
    ],
)
def test_what_a_virtual_cluster_starts_again_for(path: tuple[str, ...], value: object, key: str) -> None:
    (change,) = changes((*SHOP, *path), value)
    assert isinstance(change, VirtualClusterRenewed)
    assert key in change.keys


def test_the_order_of_clusters_decides_about_ports() -> None:
    ids = {"all/eu": [0], "us": [0], "all/us": [0]}
    before, after = (
        Config.model_validate(changed_router("virtual_clusters.0.nodes.ids", dict(order)))
        for order in (ids.items(), reversed(ids.items()))
    )
    assert compare(before, after).changes == (VirtualClusterChanged("all", ("nodes.ids",)),)


@pytest.mark.parametrize(
    ("path", "value", "keys"),
    [
        ("routers.1.config.default", "us", ("routers.regions",)),
        ("routers.0.config.default", "us", ("routers.who",)),
        ("routers.1.routes.1.id", 2, ("routers.regions",)),
        ("virtual_clusters.0.target.router", {"name": "who", "request_timeout": 1}, ("target.router.request_timeout",)),
        ("virtual_clusters.0.target.router", "regions", ("target.router.name",)),
        ("routers.2", {"name": "other", "type": "clients", "routes": []}, None),
    ],
)
def test_what_leads_to_a_router_that_is_another_starts_again(
    path: str, value: object, keys: tuple[str, ...] | None
) -> None:
    before, after = (Config.model_validate(each) for each in (regions(), changed_router(path, value)))
    renewed = [] if keys is None else [VirtualClusterRenewed("all", keys)]
    assert compare(before, after).changes == tuple(renewed)


def test_routers_that_go_by_names_change_under_clients_that_are_connected() -> None:
    before, after = regions(), changed_router("routers.1.config.default", "us")
    for each in (before, after):
        del each["routers"][0]
        each["virtual_clusters"][0]["target"]["router"] = "regions"
    compared = compare(Config.model_validate(before), Config.model_validate(after))
    assert compared.changes == (VirtualClusterChanged("all", ("routers.regions",)),)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("process_id",), "mesh-2", "process_id: 'mesh-2' in place of 'mesh-1'"),
        (("process_id",), ..., "process_id: null in place of 'mesh-1'"),
        (("admin", "listen"), "127.0.0.1:9645", "admin.listen: '127.0.0.1:9645' in place of '127.0.0.1:9644'"),
        (("admin", "tls"), {"certificate_file": "a", "key_file": "b"}, "admin.tls: (a mapping) in place of null"),
        (("admin",), ..., "admin: null in place of (a mapping)"),
        (("otlp",), {"endpoint": "http://c:4318", "spans": {}}, "otlp: (a mapping) in place of null"),
        (("journal",), {"cluster": "eu", "topic": "journal"}, "journal: (a mapping) in place of null"),
        (("store",), {"cluster": "eu", "topic": "store"}, "store: (a mapping) in place of null"),
    ],
)
def test_what_cannot_change_is_named_with_both_values(path: tuple[str, ...], value: object, told: str) -> None:
    (refused,) = compare(Config.model_validate(CONFIG), Config.model_validate(changed(path, value))).refused
    assert str(refused) == f"{told}: unchanged: it cannot change while kafka-mesh runs"


def test_no_change_tells_a_value() -> None:
    other = changed((*SHOP, "sasl", "users", 0, "password"), "very secret")
    other["clusters"][0]["properties"]["sasl.password"] = "very secret"
    told = [str(each) for each in compare(Config.model_validate(CONFIG), Config.model_validate(other)).changes]
    assert told == ["cluster eu: changed (properties)", "virtual cluster shop: changed (sasl)"]


def test_the_fingerprint_tells_configurations_apart_but_not_secrets(tmp_path: Path) -> None:
    def of(data: dict[str, Any]) -> str:
        file = tmp_path / "mesh.yaml"
        file.write_text(yaml.safe_dump(data))
        return fingerprint(load(file, {}))

    assert of(CONFIG) == of(changed(("budget",), "512MiB"))
    assert of(CONFIG) != of(changed(("budget",), "1GiB"))
    assert of(CONFIG) == of(changed(("clusters", 0, "properties", "sasl.password"), "other"))


RULES = {"super_users": ["User:operator"]}


@pytest.mark.parametrize(
    ("before", "after", "is_renewed"),
    [
        ({"authorization": RULES}, {"authorization": {"super_users": ["User:other"]}}, False),
        ({"authorization": RULES}, {}, True),
        ({}, {"authorization": RULES}, True),
        ({"authorization": RULES}, {"authorization": RULES, "refuse": ["CREATE_TOPICS"]}, True),
        ({}, {"refuse": ["CREATE_TOPICS"]}, False),
    ],
)
def test_a_relay_that_comes_under_rules_starts_again(
    before: dict[str, Any], after: dict[str, Any], is_renewed: bool
) -> None:
    (change,) = compare(_relay(**before), _relay(**after)).changes
    assert isinstance(change, VirtualClusterRenewed) is is_renewed


def _relay(authorization: Any = None, refuse: Any = ()) -> Config:
    front = {
        "name": "front",
        "listen": "127.0.0.1:19092",
        "nodes": {"ports": "19100-19102"},
        "target": {"relay": {"cluster": "eu", "refuse": refuse}},
        "authorization": authorization,
    }
    clusters = [{"name": "eu", "bootstrap_servers": "eu:9092"}]
    return Config.model_validate({"clusters": clusters, "virtual_clusters": [front]})


def test_a_route_with_other_interceptors_starts_again() -> None:
    before = regions()
    before["interceptors"] = [
        {"name": "cards", "type": "mask", "topics": ["*"], "on": ["fetch"], "config": {"paths": ["card"]}}
    ]
    del before["routers"][0]
    before["virtual_clusters"][0]["target"] = {"router": "regions"}
    with_one = deepcopy(before)
    with_one["routers"][0]["routes"][1]["interceptors"] = ["cards"]
    otherwise = deepcopy(with_one)
    otherwise["interceptors"][0]["config"] = {"paths": ["number"]}
    moved = deepcopy(with_one)
    moved["routers"][0]["config"]["default"] = "us"
    route = "routers.regions.us.interceptors"
    for was, is_to_be, expected in (
        (before, with_one, VirtualClusterRenewed("all", ("routers.regions", route))),
        (with_one, before, VirtualClusterRenewed("all", ("routers.regions", route))),
        (with_one, otherwise, VirtualClusterRenewed("all", ("interceptors.cards",))),
        (with_one, moved, VirtualClusterChanged("all", ("routers.regions",))),
    ):
        assert compare(Config.model_validate(was), Config.model_validate(is_to_be)).changes == (expected,)


def test_partitions_of_a_concatenated_topic_do_not_move() -> None:
    def with_parts(*widths: int) -> Config:
        parts = [{"route": route, "width": width} for route, width in zip(("eu", "us"), widths, strict=False)]
        joined = {"name": "orders", "parts": parts}
        return Config.model_validate(changed_router("routers.1.config.concatenated", [joined]))

    assert not compare(with_parts(4, 8), with_parts(4, 9)).refused
    assert not compare(with_parts(4), with_parts(4, 8)).refused
    (refused,) = compare(with_parts(4, 8), with_parts(5, 8)).refused
    assert str(refused) == (
        "routers[1].config.concatenated[0]: 'orders': unchanged, except for a wider last part and parts behind it:"
        " partitions keep their numbers while kafka-mesh runs"
    )


def test_a_cluster_with_another_login() -> None:
    login = {"sasl.username": "mesh", "sasl.password": "new"}
    for properties in (login, {"sasl.password": "new"}):
        assert changes(("clusters", 0, "properties"), properties) == [ClusterLoginChanged("eu", ("properties",))]
    more = changes(("clusters", 0, "properties"), {**login, "client.id": "mesh"})
    assert more == [ClusterChanged("eu", ("properties",))]
