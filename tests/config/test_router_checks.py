"""Routers in a configuration: each mistake with its key, its value and the allowed values."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from mesh.config.routers import RouterTargetConfig
from tests.config.files import Tree, load_tree, mistakes

NEVER = "not there"


def regions() -> Tree:
    """A union of two clusters, behind a router that chooses by client."""
    return {
        "clusters": [
            {"name": "eu", "bootstrap_servers": "127.0.0.1:9092"},
            {"name": "us", "bootstrap_servers": "127.0.0.1:9192"},
        ],
        "routers": [
            {
                "name": "who",
                "type": "clients",
                "config": {"rules": [{"client_ids": ["us-*"], "route": "us"}], "default": "all"},
                "routes": [
                    {"name": "all", "id": 0, "target": {"router": "regions"}},
                    {"name": "us", "id": 1, "target": {"cluster": "us"}},
                ],
            },
            {
                "name": "regions",
                "type": "topics",
                "config": {
                    "topics": [{"prefix": "us.", "route": "us", "strip": True}, {"prefix": "", "route": "eu"}],
                    "default": "eu",
                },
                "routes": [
                    {"name": "eu", "id": 0, "target": {"cluster": "eu"}},
                    {"name": "us", "id": 1, "target": {"cluster": "us"}},
                ],
            },
        ],
        "virtual_clusters": [
            {
                "name": "all",
                "listen": "127.0.0.1:19092",
                "nodes": {"ports": "19100-19129"},
                "target": {"router": "who"},
            }
        ],
    }


def pool() -> Tree:
    return {"pool": {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"]}}


def changed(path: str, value: Any) -> Tree:
    """The configuration with another value at a place; NEVER removes the key."""
    tree: Any = copy.deepcopy(regions())
    here = tree
    *ancestors, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in ancestors:
        here = here[part]
    if value == NEVER:
        del here[last]
    elif isinstance(here, list) and last == len(here):
        here.append(value)
    else:
        here[last] = value
    found: Tree = tree
    return found


def test_nothing_is_wrong(tmp_path: Path) -> None:
    config = load_tree(tmp_path, regions())
    target = config.virtual_clusters[0].target
    assert isinstance(target, RouterTargetConfig)
    assert (target.router.name, target.router.request_timeout) == ("who", 30.0)
    assert load_tree(tmp_path, config.redacted()) == config


def test_a_pool_behind_clients_has_a_coordinator(tmp_path: Path) -> None:
    tree = changed("routers.0.routes.2", {"name": "shared", "id": 2, "target": pool()})
    tree["virtual_clusters"][0]["coordinator"] = "127.0.0.1:19095"
    config = load_tree(tmp_path, tree)
    assert str(config.virtual_clusters[0].coordinator) == "127.0.0.1:19095"
    assert load_tree(tmp_path, config.redacted()) == config


def test_how_long_a_route_may_take(tmp_path: Path) -> None:
    tree = changed("virtual_clusters.0.target", {"router": {"name": "who", "request_timeout": "5s"}})
    target = load_tree(tmp_path, tree).virtual_clusters[0].target
    assert isinstance(target, RouterTargetConfig)
    assert target.router.request_timeout == 5.0


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (
            "routers.1.routes.1.target",
            {"router": "who"},
            "routers[0].routes[0].target.router: 'regions': a router that does not lead back here: who -> reg",
        ),
        (
            "routers.0.routes.0.target.router",
            "nobody",
            "routers[0].routes[0].target.router: 'nobody': one of the routers defined: regions, who",
        ),
        (
            "virtual_clusters.0.target",
            {"router": "nobody"},
            "virtual_clusters[0].target.router: 'nobody': one of the routers defined: regions, who",
        ),
        (
            "routers.1.routes.0.target.cluster",
            "asia",
            "routers[1].routes[0].target.cluster: 'asia': one of the clusters defined: eu, us",
        ),
        (
            "routers.1.routes.1.id",
            0,
            "routers[1].routes[1].id: 0: an id of its own; routers[1].routes[0].id is the same",
        ),
        ("routers.1.routes.1.id", 32, "routers[1].routes[1].id: 32: 0 to 31"),
        (
            "routers.1.config.concatenated",
            [{"name": "orders", "parts": [{"route": "eu", "width": "many"}]}],
            "routers[1].config.concatenated[0].parts[0].width: 'many': ",
        ),
        (
            "routers.1.config.concatenated",
            [{"name": "orders", "parts": [{"route": "eu", "width": 0}]}],
            "routers[1].config.concatenated[0].parts[0].width: 0: partitions: 1 to 10000",
        ),
        (
            "routers.1.config.concatenated",
            [{"name": "orders", "parts": [{"route": "asia", "width": 1}]}],
            "routers[1].config.concatenated[0].parts[0].route: 'asia': one of the routes of this router: eu, us",
        ),
        (
            "routers.1.routes.1.target",
            {"cluster": "us", "pool": {}},
            "routers[1].routes[1].target: (a mapping): a mapping with exactly one of the keys cluster, router, pool",
        ),
        (
            "routers.1.routes.1.target",
            {},
            "routers[1].routes[1].target: (a mapping): a mapping with exactly one of the keys cluster, router, pool",
        ),
        ("routers.1.routes.1.target", pool(), "routers[1].routes[1].target.pool: (a mapping): a cluster or a router: "),
        (
            "routers.1.type",
            "topicz",
            "routers[1].type: 'topicz': clients, topics, or an entry point of kafka_mesh.routers",
        ),
        ("routers.1.type", 5, "routers[1].type: 5: a text"),
        ("routers.1.name", NEVER, "routers[1].name: (missing): required: Its name in the rest"),
        ("routers.1.routes", [], "routers[1].routes: (an empty list): at least one"),
        (
            "routers.1.rout",
            [],
            "routers[1].rout: (an empty list): unknown key; the keys here are name, type, config, rout",
        ),
        ("routers.1.routes.0", 5, "routers[1].routes[0]: 5: a mapping with the keys name, id, target"),
        (
            "routers.1.config.default",
            NEVER,
            "routers[1].config.default: (missing): required: The home of groups and transactions",
        ),
        ("routers.1.config.topics.0.strip", "maybe", "routers[1].config.topics[0].strip: 'maybe': true or false"),
        (
            "routers.1.config.topics.0.route",
            NEVER,
            "routers[1].config.topics[0].route: (missing): required: Name of the",
        ),
        (
            "routers.1.config.topics.0.x",
            1,
            "routers[1].config.topics[0].x: 1: unknown key; the keys here are prefix, rout",
        ),
        (
            "routers.1.config.topics.0",
            {"route": "eu"},
            "routers[1].config.topics[0]: (a mapping): {name, route, topic}, ",
        ),
        ("routers.1.config.topics", 5, "routers[1].config.topics: 5: a list"),
        (
            "routers.1.config.topics.0.route",
            "x",
            "routers[1].config.topics[0].route: 'x': one of the routes of this rou",
        ),
        ("routers.0.config.default", "x", "routers[0].config.default: 'x': one of the routes of this router: all, us"),
        (
            "virtual_clusters.0.nodes",
            NEVER,
            "virtual_clusters[0].nodes: null: required for a router: {ports: FIRST-LAST}",
        ),
        (
            "virtual_clusters.0.nodes.ports",
            "19100-19101",
            "virtual_clusters[0].nodes.ports: '19100-19101': at least one port for each of 3 clusters: all/eu, us, all",
        ),
        (
            "virtual_clusters.0.nodes.ids",
            ["0-9"],
            "virtual_clusters[0].nodes.ids: (a list): a mapping: the ids of each cluster by the routes that lead there",
        ),
        (
            "virtual_clusters.0.nodes.ids",
            {"all/eu": [0], "us": [0], "asia": [0], "all/us": [0]},
            "virtual_clusters[0].nodes.ids.asia: 'asia': the routes to one of the clusters: all/eu, us, all/us",
        ),
        (
            "virtual_clusters.0.nodes.ids",
            {"all/eu": [0], "us": [0]},
            "virtual_clusters[0].nodes.ids: (a mapping): the ids of every cluster; all/us is missing",
        ),
        (
            "virtual_clusters.0.nodes.ids",
            {"all/eu": ["0-9"], "us": ["0-9"], "all/us": ["0-9", 10]},
            "virtual_clusters[0].nodes.ids.all/us[1]: '10': no more ids than there are ports, which are 30",
        ),
        (
            "virtual_clusters.0.nodes.ids",
            {"all/eu": [0], "us": [0], "all/us": ["0-1", 1]},
            "virtual_clusters[0].nodes.ids.all/us[1]: '1': ids that stand there once",
        ),
        (
            "virtual_clusters.0.nodes.ids",
            {"all/eu": [1_048_576], "us": [0], "all/us": [0]},
            "virtual_clusters[0].nodes.ids: (a mapping): node id 1048576: clusters behind one address have ids",
        ),
        (
            "virtual_clusters.0.nodes.ids",
            {"us": ["x"]},
            "virtual_clusters[0].nodes.ids.us[0]: 'x': a node id, or FIRST",
        ),
        (
            "virtual_clusters.0.nodes.ports",
            "19090-19130",
            "virtual_clusters[0].nodes.ports: '127.0.0.1:19092': an addre",
        ),
        ("virtual_clusters.0.nodes", {"hosts": "b{node}.x"}, "virtual_clusters[0].nodes.hosts: 'b{node}.x': with tls"),
        (
            "virtual_clusters.0.coordinator",
            "127.0.0.1:5",
            "virtual_clusters[0].coordinator: '127.0.0.1:5': left out: onl",
        ),
        (
            "clusters.1.properties",
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"},
            "clusters[1].properties: (a mapping): properties that a router can honour",
        ),
    ],
)
def test_a_mistake(tmp_path: Path, path: str, value: object, expected: str) -> None:
    (found,) = mistakes(tmp_path, changed(path, value))
    assert found.startswith(expected)


def test_a_pool_is_led_to_once(tmp_path: Path) -> None:
    tree = changed("routers.0.routes.2", {"name": "shared", "id": 2, "target": pool()})
    other = {"name": "other", "listen": "127.0.0.1:19190", "nodes": {"ports": "19200-19229"}}
    tree["virtual_clusters"].append({**other, "target": {"router": "who"}})
    assert mistakes(tmp_path, tree) == [
        "virtual_clusters[1].target.router: 'who': a router whose pools nothing else leads to;"
        " virtual_clusters[0].target.router leads to who/shared too"
    ]
    del tree["routers"][0]["routes"][2]
    assert mistakes(tmp_path, tree) == []


def test_pools_at_one_address_have_groups_of_their_own(tmp_path: Path) -> None:
    tree = changed("routers.0.routes.2", {"name": "shared", "id": 2, "target": pool()})
    tree["routers"][0]["routes"].append({"name": "more", "id": 3, "target": pool()})
    shared, more = (route["target"]["pool"] for route in tree["routers"][0]["routes"][2:])
    shared["groups"], more["groups"], more["group_less"] = ["billing-*"], ["audit-*", "billing-1"], None
    shared["topics"][0]["cluster"] = "us"
    assert mistakes(tmp_path, tree) == [
        "routers[0].routes[3].target.pool.groups: (a list): groups that no other pool at the same address has, but"
        " group 'billing-1' may be 'billing-*' of routers[0].routes[2].target.pool too:"
        " narrow groups, or change group_less"
    ]
    more["groups"] = ["audit-*"]
    assert mistakes(tmp_path, tree) == []


def test_a_pool_of_a_route_is_looked_at_as_any(tmp_path: Path) -> None:
    tree = changed("routers.0.routes.2", {"name": "shared", "id": 2, "target": pool()})
    tree["routers"][0]["routes"][2]["target"]["pool"]["topics"][0]["cluster"] = "asia"
    assert mistakes(tmp_path, tree) == [
        "routers[0].routes[2].target.pool.topics[0].cluster: 'asia': one of the clusters defined: eu, us"
    ]


def test_what_is_wrong_with_a_target_does_not_make_routers_unreachable(tmp_path: Path) -> None:
    tree = changed("virtual_clusters.0.target", {"routr": "who"})
    assert [each.split(":")[0] for each in mistakes(tmp_path, tree)] == ["virtual_clusters[0].target"]


def test_a_router_that_nothing_leads_to(tmp_path: Path) -> None:
    tree = changed("virtual_clusters.0.target", {"router": "regions"})
    assert [each.split(": a router")[0] for each in mistakes(tmp_path, tree)] == ["routers[0].name: 'who'"]


def test_ids_by_cluster_are_not_for_a_relay(tmp_path: Path) -> None:
    tree = changed("virtual_clusters.0.target", {"relay": {"cluster": "eu"}})
    tree["virtual_clusters"][0]["nodes"]["ids"] = {"eu": [0]}
    del tree["routers"]
    assert mistakes(tmp_path, tree) == [
        "virtual_clusters[0].nodes.ids: (a mapping): a list of ids and FIRST-LAST: a relay has one cluster"
    ]


def test_secrets_in_a_config_are_not_shown(tmp_path: Path) -> None:
    tree = changed("routers.1.config.default", "${HOME_ROUTE}")
    (mistake,) = mistakes_with(tmp_path, tree)
    assert "hunter2" not in mistake


def mistakes_with(tmp_path: Path, tree: Tree) -> list[str]:
    return mistakes(tmp_path, tree, {"HOME_ROUTE": "hunter2-hunter2"})


def joined(route: str) -> list[Tree]:
    return [{"name": "orders", "parts": [{"route": route, "width": 4}]}]


def test_parts_are_behind_routes_to_clusters(tmp_path: Path) -> None:
    tree = regions()
    inner = {**copy.deepcopy(tree["routers"][1]), "name": "inner"}
    tree["routers"].append(inner)
    tree["routers"][1]["config"]["concatenated"] = joined("in")
    tree["routers"][1]["routes"].append({"name": "in", "id": 2, "target": {"router": "inner"}})
    tree["virtual_clusters"][0]["target"]["router"] = "regions"
    del tree["routers"][0]
    found = mistakes(tmp_path, tree)[0]
    key = "routers[0].config.concatenated[0].parts[0].route"
    assert found.startswith(f"{key}: 'in': a route to a cluster; routers[0].routes[2] leads elsewhere")


def test_parts_are_behind_routes_without_interceptors(tmp_path: Path) -> None:
    tree = changed("routers.1.config.concatenated", joined("us"))
    tree["interceptors"] = [
        {"name": "cards", "type": "mask", "topics": ["*"], "on": ["fetch"], "config": {"paths": ["card"]}}
    ]
    tree["routers"][1]["routes"][1]["interceptors"] = ["cards"]
    (found,) = mistakes(tmp_path, tree)
    key = "routers[1].config.concatenated[0].parts[0].route"
    assert found.startswith(f"{key}: 'us': a route without interceptors")
