"""Routers of a configuration begin together, and end together."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.app.router_making import Routers, graph_behind
from mesh.config.mistakes import ConfigurationError
from mesh.config.routers import RouterConfig
from mesh.routing.names import RouterName
from mesh.wire.apis import ApiKey
from tests.routing.installing import install

MODULE = """
from pydantic import BaseModel
from mesh.routing.graph import Decides
from mesh.routing.spi import EntityRouter, Respond, Router, RouterFactory
from mesh.wire.apis import ApiKey

events = []

class Config(BaseModel):
    fails: bool = False
    static: dict[str, str] = {}
    serves: dict[str, tuple[int, int]] | None = None

class Shared:
    def __init__(self, name, config):
        self.name, self.config = name, config

def served(config):
    return None if config.serves is None else {ApiKey[key]: versions for key, versions in config.serves.items()}

class Base(RouterFactory):
    config = Config

    def initialize(self, context, config):
        if config.fails:
            raise RuntimeError("no luck")
        events.append(f"begin {context.name}")
        return Shared(context.name, config)

    def close(self, shared):
        events.append(f"end {shared.name}")

class Names(EntityRouter):
    default = "a"

    def __init__(self, shared):
        self.shared = shared

    def topic(self, name): ...

    def topics_of(self, route, names):
        return {}

    def serves(self):
        return served(self.shared.config)

class OfNames(Base):
    decides = Decides.NAMES

    def create_router(self, context, shared):
        return Names(shared)

class Asked(Router):
    def __init__(self, shared):
        self.shared = shared

    async def on_request(self, request, context): ...

    def static_routes(self):
        return {ApiKey[key]: route for key, route in self.shared.config.static.items()}

    def serves(self):
        return served(self.shared.config)

class OfRequests(Base):
    decides = Decides.REQUESTS

    def create_router(self, context, shared):
        return Asked(shared)
"""
ENTRY_POINTS = "of-names = some_routers:OfNames\nof-requests = some_routers:OfRequests\n"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "some_routers", MODULE, ENTRY_POINTS, monkeypatch)


def router(name: str, type: str, config: dict[str, object], **targets: dict[str, str]) -> RouterConfig:
    routes = [{"name": route, "id": id, "target": target} for id, (route, target) in enumerate(targets.items())]
    return RouterConfig.model_validate({"name": name, "type": type, "config": config, "routes": routes})


def routers(front: dict[str, object], behind: dict[str, object]) -> Routers:
    """A router that answers each request, in front of one that decides by names, and a cluster."""
    configs = [
        router("behind", "of-names", behind, a={"cluster": "eu"}),
        router("front", "of-requests", front, union={"router": "behind"}, us={"cluster": "us"}),
    ]
    return Routers(graph_behind(configs, RouterName("front")), configs, "all")


def events() -> list[str]:
    import some_routers  # type: ignore[import-not-found]

    happened: list[str] = some_routers.events
    return happened


def test_each_factory_is_told_of_the_end() -> None:
    made = routers({}, {})
    assert events()[-2:] == ["begin behind", "begin front"]
    made.close()
    assert events()[-2:] == ["end behind", "end front"]
    made.close()
    assert events()[-2:] == ["end behind", "end front"]


def test_where_one_cannot_begin_the_others_end() -> None:
    with pytest.raises(ConfigurationError) as told:
        routers({"fails": True}, {})
    assert "routers[1].config" in str(told.value)
    assert "RuntimeError: no luck" in str(told.value)
    assert events()[-2:] == ["begin behind", "end behind"]


@pytest.mark.parametrize(
    ("static", "allowed"),
    [
        ({"FETCH": "union"}, "static routes to routes that lead to a cluster: us"),
        ({"FETCH": "nowhere"}, "static routes to routes that lead to a cluster: us"),
        ({"METADATA": "us"}, "static routes of APIs without nodes in them"),
        ({"API_VERSIONS": "us"}, "static routes of APIs without nodes in them"),
    ],
)
def test_static_routes_that_cannot_be(static: dict[str, str], allowed: str) -> None:
    with pytest.raises(ConfigurationError, match=allowed) as told:
        routers({"static": static}, {})
    assert "routers[1].config" in str(told.value)
    assert sorted(events()[-2:]) == ["end behind", "end front"], "before anything has changed"


def test_static_routes() -> None:
    kind = routers({"static": {"FETCH": "us"}}, {}).of_requests(RouterName("front"))
    assert kind.static_routes == {ApiKey.FETCH: "us"}
    assert kind.make() is not kind.make()


def test_what_all_of_them_serve() -> None:
    made = routers({"serves": {"FETCH": (4, 12), "PRODUCE": (3, 9)}}, {"serves": {"FETCH": (6, 16)}})
    front, behind = RouterName("front"), RouterName("behind")
    assert made.serves([front, behind]) == {ApiKey.FETCH: (6, 12)}
    assert made.serves([behind]) == {ApiKey.FETCH: (6, 16)}
    assert routers({}, {}).serves([front, behind]) is None
