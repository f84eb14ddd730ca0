"""The examples of docs/routers.md and docs/own-routers.md work as they are."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from mesh.config.graphs import configured, graph_of, ports_of_nodes
from mesh.config.model import Config
from mesh.config.relay import NodesConfig
from mesh.routing.names import LeafNumber, RouterName
from mesh.routing.spi import EntityRouter, FactoryContext
from mesh.routing.union import Owner, Union
from tests.config.files import load_tree
from tests.documents import blocks
from tests.routing.installing import install

PAGES = ("docs/routers.md", "docs/own-routers.md")


def shown(language: str, holding: str) -> str:
    """The one block with this text."""
    every = (each for page in PAGES for each in blocks(page))
    (found,) = (each.text for each in every if each.language == language and holding in each.text)
    return found


def union_of(config: Config) -> Union:
    """The union of the first router."""
    router = config.routers[0]
    factory, parsed = configured(router)
    context = FactoryContext(router.name, "all", tuple(each.name for each in router.routes))
    made = factory.create_router(context, factory.initialize(context, parsed))
    assert isinstance(made, EntityRouter)
    return Union(graph_of(config, router.name), {router.name: made})


@pytest.fixture
def tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads(shown("toml", "entry-points"))["project"]
    ((name, value),) = project["entry-points"]["kafka_mesh.routers"].items()
    install_from = shown("python", "class TenantsFactory")
    install(tmp_path, "tenants", install_from, f"{name} = {value}\n", monkeypatch)


@pytest.mark.usefixtures("tenants")
def test_the_router_and_its_test() -> None:
    there: dict[str, Any] = {}
    exec(shown("python", "from tenants import"), there)
    there["test_my_router"]()


def test_the_router_that_answers_each_request_and_its_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "read_only", shown("python", "class ReadOnlyFactory"), "read-only = read_only:X\n", monkeypatch)
    there: dict[str, Any] = {}
    exec(shown("python", "from read_only import"), there)
    there["test_my_router"]()


@pytest.mark.usefixtures("tenants")
def test_the_router_in_a_configuration(tmp_path: Path) -> None:
    tree = yaml.safe_load(shown("yaml", "prefix: us."))
    tree |= yaml.safe_load(shown("yaml", "by-tenant"))
    tree["virtual_clusters"][0] |= {"nodes": {"ports": "19100-19119"}, "target": {"router": "by-tenant"}}
    union = union_of(load_tree(tmp_path, tree))
    assert union.owner("globex.orders") == Owner(LeafNumber(1), "orders")
    assert union.owner("initech.orders") is None
    assert union.group_home("globex.billing") == 1
    assert union.client_name(LeafNumber(1), "orders") == "globex.orders"


def test_the_union(tmp_path: Path) -> None:
    config = load_tree(tmp_path, yaml.safe_load(shown("yaml", "prefix: us.")))
    union = union_of(config)
    us = LeafNumber(1)
    assert union.owner("orders") == Owner(us, "orders-v2")
    assert union.owner("us.payments") == Owner(us, "payments")
    assert union.owner("us.orders-v2") is None
    nodes = config.virtual_clusters[0].nodes
    assert isinstance(nodes, NodesConfig)
    ports = ports_of_nodes(nodes, graph_of(config, RouterName("regions")))
    assert (ports[0], ports[1_048_576]) == (19100, 19110)


def test_the_choice_by_client(tmp_path: Path) -> None:
    tree = yaml.safe_load(shown("yaml", "prefix: us."))
    tree["routers"] += yaml.safe_load(shown("yaml", "name: who"))["routers"]
    tree["virtual_clusters"][0] |= {"nodes": {"ports": "19100-19129"}, "target": {"router": "who"}}
    tree["virtual_clusters"][0]["sasl"] = {
        "mechanisms": ["PLAIN"],
        "users": [{"name": "partner", "password": "secret"}],
    }
    graph = graph_of(load_tree(tmp_path, tree), RouterName("who"))
    assert list(map(str, graph.leaves)) == ["all/eu", "us", "all/us"]
