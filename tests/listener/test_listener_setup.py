"""From files to the guards of an address, and their changes while it is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mesh.config import Config, ConfigurationError
from mesh.config.security.model import TlsConfig as TlsConfig
from mesh.listener.listener_setup import ListenerSetup
from mesh.security.principals import user
from mesh.security.rules import Operation, ResourceType
from tests.config.files import Tree, small
from tests.integration.security.certificates import Pair

pytestmark = pytest.mark.anyio


def setup_of(**security: object) -> ListenerSetup:
    tree: Tree = small()
    tree["virtual_clusters"][0] |= security
    return ListenerSetup(Config.model_validate(tree).virtual_clusters[0], ("virtual_clusters", 0))


def tls_of(pair: Pair) -> dict[str, str]:
    return {"certificate_file": str(pair.certificate), "key_file": str(pair.key)}


async def look(setup: ListenerSetup) -> None:
    for watched in setup.watched:
        await watched.check()


async def test_nothing_guards_an_address_that_says_nothing() -> None:
    setup = setup_of()
    assert (setup.security.tls, setup.security.sasl, setup.security.rules) == (None, None, None)
    assert setup.watched == []
    assert setup.security.access(None, "10.0.0.1").is_unlimited


async def test_users_come_and_go_with_their_file(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    users.write_text("users: [{name: bob, password: b1}]")
    setup = setup_of(
        sasl={"mechanisms": ["PLAIN"], "users": [{"name": "alice", "password": "a"}], "users_file": str(users)}
    )
    sasl = setup.security.sasl
    assert sasl is not None
    assert sasl.credentials.verify("alice", "a")
    assert sasl.credentials.verify("bob", "b1")
    users.write_text("users: [{name: carol, password: c12}]")
    await look(setup)
    assert sasl.credentials.verify("alice", "a")
    assert sasl.credentials.verify("carol", "c12")
    assert not sasl.credentials.verify("bob", "b1")
    with capture_logs() as logs:
        users.write_text("users: [{name: alice, password: other}]")
        await look(setup)
    assert "users in both the configuration and users_file: alice" in logs[0]["reason"]
    assert sasl.credentials.verify("carol", "c12")


async def test_rules_that_change_are_told_to_the_server(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: []")
    setup = setup_of(authorization={"rules_file": str(rules)})
    told: list[int] = []
    setup.rules_changed = lambda: told.append(1)

    def may_read() -> bool:
        return setup.security.access(user("alice"), "10.0.0.1").allows(Operation.READ, ResourceType.TOPIC, "orders")

    assert not may_read()
    rules.write_text("rules: [{principals: ['User:alice'], topics: [orders], hosts: ['::ffff:10.0.0.1']}]")
    await look(setup)
    assert may_read()
    assert told == [1]
    with capture_logs() as logs:
        rules.write_text("rules: [{principals: ['User:alice'], topics: [orders], hosts: [localhost]}]")
        await look(setup)
    assert "an IP address or *" in logs[0]["reason"]
    assert may_read()


async def test_every_file_that_cannot_be_used_is_named_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        setup_of(
            tls={"certificate_file": str(tmp_path / "a"), "key_file": str(tmp_path / "b")},
            sasl={"mechanisms": ["OAUTHBEARER"], "oauthbearer": {"jwks_file": str(tmp_path / "c")}},
            authorization={"rules_file": str(tmp_path / "d")},
        )
    keys = [mistake.path[2:] for mistake in caught.value.mistakes]
    assert keys == [("tls", "certificate_file"), ("sasl", "oauthbearer", "jwks_file"), ("authorization", "rules_file")]


async def test_keys_from_a_url_are_asked_for_by_tokens() -> None:
    setup = setup_of(sasl={"mechanisms": ["OAUTHBEARER"], "oauthbearer": {"jwks_url": "https://issuer/keys"}})
    assert setup.key_source is not None
    assert setup.security.sasl is not None
    tokens = setup.security.sasl.tokens
    assert tokens is not None
    assert tokens.keys is None
    assert tokens.refresh == setup.key_source.refresh_soon
