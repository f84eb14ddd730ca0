"""Relays in a configuration: their nodes, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesh.app.one_node_target import shown_of
from mesh.app.targets import addresses_of
from mesh.config.values import Address
from tests.config.files import load_tree, mistakes


def relay(nodes: object = None, relay: object = None, **keys: object) -> dict[str, Any]:
    return {
        "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}],
        "virtual_clusters": [
            {
                "name": "front",
                "listen": "127.0.0.1:19092",
                "nodes": {"ports": "19100-19102"} if nodes is None else nodes,
                "target": {"relay": relay or {"cluster": "eu"}},
                **keys,
            }
        ],
    }


@pytest.mark.parametrize(
    ("nodes", "ports"),
    [
        ({"ports": "19100-19102"}, {0: 19100, 1: 19101, 2: 19102}),
        ({"ports": "19100-19104", "ids": ["0-1", 101, 1_000_000]}, {0: 19100, 1: 19101, 101: 19102, 1_000_000: 19103}),
        ({"ports": 19100, "ids": [7]}, {7: 19100}),
    ],
)
def test_the_place_in_the_list_says_the_port(tmp_path: Path, nodes: object, ports: dict[int, int]) -> None:
    config = load_tree(tmp_path, relay(nodes))
    addresses = {each.node: each.address for each in addresses_of(config.virtual_clusters[0], ())}
    assert addresses.pop(None) == Address("127.0.0.1", 19092)
    assert addresses == {id: Address("127.0.0.1", at) for id, at in ports.items()}


def test_nodes_by_name_share_one_address(tmp_path: Path) -> None:
    tls = {"certificate_file": "a", "key_file": "b"}
    config = load_tree(tmp_path, relay({"hosts": "b{node}.example.com"}, tls=tls))
    assert [each.node for each in addresses_of(config.virtual_clusters[0], ())] == [None]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (relay({}), "virtual_clusters[0].nodes: (a mapping): exactly one of ports, hosts"),
        (
            relay({"ports": "19100-19101", "ids": ["0-1", 5]}),
            "virtual_clusters[0].nodes.ids[1]: '5': no more ids than there are ports, which are 2",
        ),
        (
            relay({"ports": "19100-19105", "ids": ["0-1", 1]}),
            "virtual_clusters[0].nodes.ids[1]: '1': ids that stand there once",
        ),
        (relay({"ports": "19102-19100"}), "virtual_clusters[0].nodes.ports: '19102-19100': FIRST-LAST, ports"),
        (relay({"ports": "19090-19093"}), "virtual_clusters[0].nodes.ports: '127.0.0.1:19092': an address of its own"),
        (relay({"hosts": "b{node}.example.com"}), "virtual_clusters[0].nodes.hosts: 'b{node}.example.com': with tls"),
        (relay({"hosts": "b.example.com"}), "virtual_clusters[0].nodes.hosts: 'b.example.com': a host name in which"),
        (relay(relay={"cluster": "us"}), "virtual_clusters[0].target.relay.cluster: 'us': one of the clusters defined"),
        (
            relay(relay={"cluster": "eu", "refuse": ["FETCHX"]}),
            "virtual_clusters[0].target.relay.refuse[0]: 'FETCHX': the name of an API",
        ),
        (
            relay(relay={"cluster": "eu", "refuse": ["METADATA"]}),
            "virtual_clusters[0].target.relay.refuse[0]: 'METADATA': an API that clients can do without",
        ),
        (relay(coordinator="127.0.0.1:5"), "virtual_clusters[0].coordinator: '127.0.0.1:5': left out"),
        (
            relay(relay={"cluster": "eu", "authentication": "upstream"}, authorization={}),
            "virtual_clusters[0].target.relay.authentication: 'upstream': mesh, with rules of kafka-mesh",
        ),
        (
            relay(authorization={"rules": [{"principals": ["User:a"], "transactional_ids": ["*"]}]}),
            "virtual_clusters[0].authorization.rules[0].operations: (a list): at least one that transactional ids have",
        ),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, tree: dict[str, Any], expected: str) -> None:
    assert any(each.startswith(expected) for each in mistakes(tmp_path, tree)), mistakes(tmp_path, tree)


def test_a_relay_with_rules_has_one_listener(tmp_path: Path) -> None:
    inside = {"name": "inside", "listen": "127.0.0.1:29092", "nodes": {"ports": "29100-29102"}}
    assert not mistakes(tmp_path, relay(authorization={}))
    (found,) = mistakes(tmp_path, relay(authorization={}, listeners=[inside]))
    assert found.startswith("virtual_clusters[0].listeners: (a mapping): left out with authorization")


def test_a_relay_needs_nodes(tmp_path: Path) -> None:
    tree = relay()
    del tree["virtual_clusters"][0]["nodes"]
    assert [each.split(":")[0] for each in mistakes(tmp_path, tree)] == ["virtual_clusters[0].nodes"]


INSIDE = {"name": "inside", "listen": "127.0.0.1:29092", "nodes": {"ports": "29100-29102"}}


def test_each_listener_has_addresses_of_its_own(tmp_path: Path) -> None:
    tls = {"certificate_file": "a", "key_file": "b"}
    hosts = {"name": "by-names", "listen": "127.0.0.1:39092", "nodes": {"hosts": "b{node}.example.com"}, "tls": tls}
    config = load_tree(tmp_path, relay(listeners=[INSIDE, hosts]))
    found = [(each.listener, each.node, each.address.port) for each in addresses_of(config.virtual_clusters[0], ())]
    assert found == [
        ("", None, 19092),
        *(("", node, 19100 + node) for node in range(3)),
        ("inside", None, 29092),
        *(("inside", node, 29100 + node) for node in range(3)),
        ("by-names", None, 39092),
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "in side"}, "name: 'in side': at most 100 letters"),
        ({"nodes": {}}, "nodes: (a mapping): exactly one of ports, hosts"),
        ({"nodes": {"hosts": "b{node}.example.com"}}, "nodes.hosts: 'b{node}.example.com': with tls"),
        ({"nodes": {"ports": 29100, "ids": [1, 2]}}, "nodes.ids[1]: '2': no more ids than there are ports"),
        ({"nodes": {"ports": "19102-19104"}}, "nodes.ports: '127.0.0.1:19102': an address of its own"),
        ({"listen": "127.0.0.1:19092"}, "listen: '127.0.0.1:19092': an address of its own"),
        ({"listen": "0.0.0.0:29092"}, "advertise: '0.0.0.0:29092': an address that clients can connect to"),
        ({"sasl": {}}, "sasl: "),
    ],
)
def test_what_does_not_go_together_in_a_listener(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    found = mistakes(tmp_path, relay(listeners=[{**INSIDE, **change}]))
    assert any(each.startswith(f"virtual_clusters[0].listeners[0].{expected}") for each in found), found


def test_listeners_have_names_of_their_own(tmp_path: Path) -> None:
    other = {**INSIDE, "listen": "127.0.0.1:39092", "nodes": {"ports": "39100-39102"}}
    (found,) = mistakes(tmp_path, relay(listeners=[INSIDE, other]))
    assert found.startswith(
        "virtual_clusters[0].listeners[1].name: 'inside': a name of its own; virtual_clusters[0].listeners[0].name is"
    )


def test_a_listener_needs_nodes_and_a_pool_has_no_listeners(tmp_path: Path) -> None:
    bare = {key: value for key, value in INSIDE.items() if key != "nodes"}
    assert [each.split(":")[0] for each in mistakes(tmp_path, relay(listeners=[bare]))] == [
        "virtual_clusters[0].listeners[0].nodes"
    ]
    tree = relay(listeners=[INSIDE])
    topics = [{"name": "orders", "from": [{"cluster": "eu", "topic": "orders"}]}]
    tree["virtual_clusters"][0]["target"] = {"pool": {"topics": topics, "groups": ["*"]}}
    del tree["virtual_clusters"][0]["nodes"]
    assert [each.split(":")[0] for each in mistakes(tmp_path, tree)] == ["virtual_clusters[0].listeners"]


@pytest.mark.parametrize("target", [{}, {"pool": {}, "relay": {}}, {"mirror": {}}])
def test_there_is_exactly_one_target(tmp_path: Path, target: object) -> None:
    tree = relay()
    tree["virtual_clusters"][0]["target"] = target
    found = [each for each in mistakes(tmp_path, tree) if each.startswith("virtual_clusters[0].target:")]
    assert found == [
        "virtual_clusters[0].target: (a mapping): a mapping with exactly one of the keys pool, relay, router"
    ]


def test_properties_that_only_librdkafka_honours_are_refused(tmp_path: Path) -> None:
    tree = relay()
    tree["clusters"][0]["properties"] = {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}
    assert any(
        each.startswith("clusters[0].properties: (a mapping): properties that a") for each in mistakes(tmp_path, tree)
    )


def test_one_node_has_one_address_and_one_more_for_the_coordinator_if_the_file_has_it(tmp_path: Path) -> None:
    alone = load_tree(tmp_path, relay("one")).virtual_clusters[0]
    assert [(each.node, str(each.address)) for each in addresses_of(alone, ())] == [(1, "127.0.0.1:19092")]
    with_two = load_tree(tmp_path, relay("one", coordinator="127.0.0.1:19093")).virtual_clusters[0]
    assert [each.node for each in addresses_of(with_two, ())] == [1, 2]


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"listeners": [{"name": "b", "listen": "127.0.0.1:1", "nodes": {"ports": 2}}]}, "listeners[0].nodes"),
        ({"relay": {"cluster": "eu", "authentication": "upstream"}}, "target.relay.authentication"),
        ({"coordinator": "127.0.0.1:19092"}, "coordinator"),
    ],
)
def test_what_does_not_go_with_one_node(tmp_path: Path, keys: dict[str, Any], path: str) -> None:
    found = mistakes(tmp_path, relay("one", **keys))
    assert any(f"virtual_clusters[0].{path}" in each for each in map(str, found)), found


def test_one_node_may_have_several_listeners(tmp_path: Path) -> None:
    inside = {"name": "inside", "listen": "127.0.0.1:29092", "nodes": "one"}
    tree = relay("one", coordinator="127.0.0.1:19093", listeners=[inside])
    (configured,) = load_tree(tmp_path, tree).virtual_clusters
    found = [(each.listener, each.node, each.address.port) for each in addresses_of(configured, ())]
    assert found == [("", 1, 19092), ("inside", 1, 29092), ("", 2, 19093)]
    shown = {name: [each.port for each in of.nodes] for name, of in shown_of(configured).items()}
    assert shown == {"": [19092, 19093], "inside": [29092]}
    (mistake,) = mistakes(tmp_path, relay(listeners=[inside]))
    assert mistake.startswith("virtual_clusters[0].listeners[0].nodes: 'one': as at the first listener: not one")


def test_nodes_are_a_mapping_or_one(tmp_path: Path) -> None:
    (mistake,) = mistakes(tmp_path, relay("two"))
    assert "a mapping with ports or hosts, or one for all nodes as one" in str(mistake)
