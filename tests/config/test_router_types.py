"""Routers of other packages: found when they are installed, and reported when they cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.config.router_types import UnknownRouterType, factory_of
from mesh.routing.graph import Decides
from mesh.routing.routers.clients import ClientsFactory
from mesh.routing.routers.topics import TopicsFactory
from tests.config.files import mistakes
from tests.config.test_router_checks import changed
from tests.routing.installing import install

MODULE = """
from pydantic import BaseModel
from mesh.routing.graph import Decides
from mesh.routing.spi import RouterFactory

class TenantsConfig(BaseModel):
    tenants: dict[str, int]

class TenantsFactory(RouterFactory[TenantsConfig, None]):
    config = TenantsConfig
    decides = Decides.NAMES
    def initialize(self, context, config): return None
    def create_router(self, context, shared): raise NotImplementedError

class AskedFactory(TenantsFactory):
    decides = Decides.REQUESTS
    def shares_clusters(self, config): return True

NOT_A_FACTORY = int
"""
ENTRY_POINTS = """\
tenants = tenant_router:TenantsFactory
asked = tenant_router:AskedFactory
number = tenant_router:NOT_A_FACTORY
gone = tenant_router:Gone
missing = no_such_module:Factory
topics = tenant_router:TenantsFactory
"""


INSTALLED = "asked, gone, missing, number, tenants, topics"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "tenant_router", MODULE, ENTRY_POINTS, monkeypatch)


def test_those_that_ship() -> None:
    assert isinstance(factory_of("topics"), TopicsFactory)
    assert isinstance(factory_of("clients"), ClientsFactory)


@pytest.mark.usefixtures("installed")
def test_one_of_another_package() -> None:
    factory = factory_of("tenants")
    assert type(factory).__name__ == "TenantsFactory"
    assert factory.decides is Decides.NAMES
    assert isinstance(factory_of("topics"), TopicsFactory), "which nobody takes the place of"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("type", "allowed"),
    [
        ("tenant", f"clients, topics, or an entry point of kafka_mesh.routers: {INSTALLED}"),
        ("number", "the type of a router; tenant_router:NOT_A_FACTORY is no RouterFactory"),
        ("gone", "a router that can be loaded; tenant_router:Gone cannot: AttributeError: "),
        ("missing", "a router that can be loaded; no_such_module:Factory cannot: ModuleNotFoundError: "),
    ],
)
def test_one_that_cannot_be_used(type: str, allowed: str) -> None:
    with pytest.raises(UnknownRouterType) as caught:
        factory_of(type)
    assert str(caught.value).startswith(allowed)


@pytest.mark.usefixtures("installed")
def test_its_config_is_checked_by_its_model(tmp_path: Path) -> None:
    tree = changed("routers.1.type", "tenants")
    tree["routers"][1]["config"] = {"tenants": {"a": "many"}}
    (found,) = mistakes(tmp_path, tree)
    assert found.startswith("routers[1].config.tenants.a: 'many': a whole number")
    tree["routers"][1]["config"] = {"tenants": {"a": 1}}
    assert mistakes(tmp_path, tree) == []


@pytest.mark.usefixtures("installed")
def test_a_router_that_answers_each_request_decides_itself_about_permissions(tmp_path: Path) -> None:
    tree = changed("routers.0.type", "asked")
    tree["routers"][0]["config"] = {"tenants": {}}
    assert not mistakes(tmp_path, tree)
    tree["virtual_clusters"][0]["authorization"] = {"super_users": ["User:admin"]}
    (found,) = mistakes(tmp_path, tree)
    allowed = "left out: a router that answers each request decides itself what a principal may do"
    assert found == f"virtual_clusters[0].authorization: (a mapping): {allowed}"
