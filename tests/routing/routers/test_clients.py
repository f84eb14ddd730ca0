"""The router `clients`: the route of each client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from pydantic import ValidationError

from mesh.routing.names import RouteName, RouterName
from mesh.routing.routers.clients import Clients, ClientsConfig, ClientsFactory
from mesh.routing.spi import Client, FactoryContext, Refused, Undecided
from mesh.security.principals import user

ANN = Client(user("ann"), "batch-1", "10.0.0.7", "door", "CN=ann,O=example")
ROUTES = (RouteName("all"), RouteName("shared"))


def configured(*rules: Mapping[str, object], default: str | None = "all") -> ClientsConfig:
    return ClientsConfig.model_validate({"rules": rules, "default": default})


def chosen(client: Client, *rules: Mapping[str, object], default: str | None = "all") -> str | Refused | Undecided:
    return Clients(configured(*rules, default=default)).choose(client)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"client_ids": ["batch-*"]}, True),
        ({"client_ids": ["other", "batch-?"]}, True),
        ({"client_ids": ["batch"]}, False),
        ({"principals": ["User:a*"]}, True),
        ({"principals": ["User:bob"]}, False),
        ({"hosts": ["10.0.0.7"]}, True),
        ({"hosts": ["192.168.0.0/16", "10.0.0.0/8"]}, True),
        ({"hosts": ["10.0.0.8", "::/0"]}, False),
        ({"listeners": ["door"]}, True),
        ({"listeners": ["window"]}, False),
        ({"certificates": ["*O=example"]}, True),
        ({"certificates": ["CN=bob*"]}, False),
    ],
)
def test_a_condition(condition: Mapping[str, object], holds: bool) -> None:
    assert chosen(ANN, {**condition, "route": "shared"}) == ("shared" if holds else "all")
    both = {**condition, "listeners": condition.get("listeners", ["d*"]), "route": "shared"}
    assert chosen(ANN, both) == ("shared" if holds else "all")
    none = {**condition, "client_ids": ["nobody"], "hosts": ["1.2.3.4"], "route": "shared"}
    assert chosen(ANN, none) == "all"


def test_the_first_rule_that_holds_decides() -> None:
    rules = [{"listeners": ["door"], "route": "all"}, {"client_ids": ["*"], "route": "shared"}]
    assert chosen(ANN, *rules) == "all"
    assert chosen(ANN, *reversed(rules)) == "shared"


def test_nobody_is_led_anywhere_without_a_rule_or_a_default() -> None:
    assert chosen(ANN, {"client_ids": ["x"], "route": "all"}, default=None) == Refused("no rule is for this client")


def test_a_client_that_says_less_fulfils_less() -> None:
    nobody = Client(user("ann"), None, "?", "door")
    assert chosen(nobody, {"certificates": ["*"], "route": "shared"}) == "all"
    assert chosen(nobody, {"hosts": ["0.0.0.0/0", "::/0"], "route": "shared"}) == "all"
    assert chosen(nobody, {"client_ids": ["*"], "route": "shared"}) == "shared"
    assert chosen(nobody, {"client_ids": ["?*"], "route": "shared"}) == "all"


def test_an_address_is_known_however_it_is_written() -> None:
    assert chosen(replace(ANN, host="::ffff:10.0.0.7"), {"hosts": ["10.0.0.0/8"], "route": "shared"}) == "shared"


def test_an_unidentified_client_waits_only_if_that_matters() -> None:
    unknown = replace(ANN, principal=None)
    by_principal = {"principals": ["User:ann"], "route": "shared"}
    assert chosen(unknown, by_principal) == Undecided()
    assert chosen(ANN, by_principal) == "shared"
    assert chosen(unknown, {**by_principal, "client_ids": ["other"]}) == "all"
    assert chosen(unknown, {"client_ids": ["batch-1"], "route": "shared"}, by_principal) == "shared"


def test_the_factory_makes_it() -> None:
    factory = ClientsFactory()
    context = FactoryContext(RouterName("who"), "door", ROUTES)
    made = factory.create_router(context, factory.initialize(context, configured()))
    assert made.choose(ANN) == "all"
    assert made.serves() is None
    assert factory.shares_clusters(configured())


@pytest.mark.parametrize(
    ("config", "path", "value", "allowed"),
    [
        (configured(default="x"), ("default",), "x", "one of the routes of this router: all, shared"),
        (
            configured({"client_ids": ["a"], "route": "x"}),
            ("rules", 0, "route"),
            "x",
            "one of the routes of this router: all, shared",
        ),
        (
            configured({"route": "all"}),
            ("rules", 0),
            {},
            "at least one of client_ids, principals, hosts, listeners, certificates, or default instead",
        ),
        (configured(default=None), (), {}, "rules, default, or both: no client could connect"),
    ],
)
def test_a_mistake(config: ClientsConfig, path: tuple[str | int, ...], value: object, allowed: str) -> None:
    (found,) = ClientsFactory().mistakes(config, ROUTES)
    assert (found.path, found.value, found.allowed) == (path, value, allowed)


@pytest.mark.parametrize(
    ("condition", "allowed"),
    [
        ({"hosts": ["example.com"]}, "an IP address"),
        ({"hosts": ["10.0.0.1/8"]}, "an IP address"),
        ({"principals": ["ann"]}, "a pattern of TYPE:NAME"),
        ({"client_ids": [""]}, "a pattern"),
    ],
)
def test_a_value_that_is_none(condition: Mapping[str, object], allowed: str) -> None:
    with pytest.raises(ValidationError) as caught:
        configured({**condition, "route": "all"})
    assert caught.value.errors()[0]["msg"].startswith(allowed)
