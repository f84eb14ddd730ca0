"""From files to the guards of an address, and their changes while it is served."""

from __future__ import annotations

import socket
import ssl
from functools import partial
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from mesh.admin.http import AdminAccess, bind_admin, serve_admin
from mesh.config import Config, ConfigurationError
from mesh.config.security.model import TlsConfig as TlsConfig
from mesh.listener.listener_setup import ListenerSetup, admin_certificate
from mesh.security.principals import user
from mesh.security.rules import Operation, ResourceType
from mesh.telemetry.metrics import Metrics
from tests.admin.test_http import State, free_address
from tests.config.files import Tree, small
from tests.integration.security.certificates import Authority, Pair

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


def peer_certificate(port: int, authority: Authority) -> bytes:
    """The certificate that the admin address shows to a new connection; it must come from that authority."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with (
        socket.create_connection(("127.0.0.1", port), 10) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as connection,
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert connection.recv(1_000).startswith(b"HTTP/1.1 200")
        found = connection.getpeercert(binary_form=True)
    assert found is not None
    return found


async def test_the_admin_address_shows_a_new_certificate_once_its_files_change(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    pair = authority.issue("admin")
    certificate = admin_certificate(TlsConfig.model_validate(tls_of(pair)))
    address = free_address()
    shown = partial(anyio.to_thread.run_sync, peer_certificate, address.port, authority)
    async with anyio.create_task_group() as tasks:
        serve = partial(serve_admin, access=AdminAccess(tls=certificate.context))
        await tasks.start(serve, bind_admin(address), State(), Metrics())
        first = await shown()
        with capture_logs() as logs:
            pair.certificate.write_text("no certificate")
            await certificate.files.check()
            assert await shown() == first
            authority.issue("admin")
            await certificate.files.check()
        second = await shown()
        assert second != first
        assert second == ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())
        assert [entry["event"] for entry in logs] == ["file not reloaded", "file reloaded"]
        tasks.cancel_scope.cancel()


async def test_admin_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"admin\.tls"):
        admin_certificate(TlsConfig(certificate_file=str(tmp_path / "a"), key_file=str(tmp_path / "b")))
