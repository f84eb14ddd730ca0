"""The guards of a listener: the principal of a certificate, the mechanisms offered to a connection, and its rights."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from mesh.listener.security import ListenerSecurity, Sasl, Tls
from mesh.security.credentials import Credentials, StoredUser
from mesh.security.distinguished_names import MappingRule
from mesh.security.principals import ANONYMOUS, Principal, user
from mesh.security.rules import Operation, ResourceType, Rule, Rules
from mesh.security.sasl import Mechanism, Success
from mesh.security.session import Handshake
from tests.integration.security.certificates import Authority

MAPPING = [MappingRule.parse("RULE:^CN=(.*?),O=Shop$/$1/")]


def certificate(folder: Path, name: str, organization: str = "Shop") -> bytes:
    pair = Authority(folder).issue(name, organization=organization)
    return ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())


def tls() -> Tls:
    return Tls(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), MAPPING)


def sasl(*mechanisms: Mechanism) -> Sasl:
    return Sasl(mechanisms, Credentials([StoredUser("alice", password="sesam")], None), lambda: 0.0)


def test_without_anything_everybody_is_anonymous_and_may_do_everything() -> None:
    session = ListenerSecurity().session(None)
    assert session is not None
    assert session.is_established
    assert session.principal == ANONYMOUS
    assert ListenerSecurity().access(session.principal, "10.0.0.1").is_unlimited


def test_the_principal_of_a_certificate(tmp_path: Path) -> None:
    session = ListenerSecurity(tls=tls()).session(certificate(tmp_path, "alice"))
    assert session is not None
    assert session.principal == user("alice")


def test_a_certificate_of_nobody_known_is_not_let_in(tmp_path: Path) -> None:
    assert ListenerSecurity(tls=tls()).session(certificate(tmp_path, "alice", "Elsewhere")) is None


def test_a_client_without_a_certificate_is_anonymous() -> None:
    session = ListenerSecurity(tls=tls()).session(None)
    assert session is not None
    assert session.principal == ANONYMOUS


def test_with_sasl_a_certificate_only_lets_in(tmp_path: Path) -> None:
    session = ListenerSecurity(tls=tls(), sasl=sasl(Mechanism.PLAIN)).session(certificate(tmp_path, "alice"))
    assert session is not None
    assert session.principal is None
    assert not session.is_established


def test_only_what_is_enabled_is_offered() -> None:
    session = ListenerSecurity(sasl=sasl(Mechanism.SCRAM_SHA_512, Mechanism.PLAIN)).session(None)
    assert session is not None
    assert session.offered == (Mechanism.SCRAM_SHA_512, Mechanism.PLAIN)
    assert session.handshake("SCRAM-SHA-256") is Handshake.UNSUPPORTED_MECHANISM
    assert session.handshake("SCRAM-SHA-512") is Handshake.ACCEPTED


def test_an_authentication_goes_by_the_users_of_its_beginning_the_next_by_new_ones() -> None:
    found = sasl(Mechanism.PLAIN)
    before = found.mechanisms()[Mechanism.PLAIN]()
    found.credentials = Credentials([StoredUser("bob", password="other")], None)
    after = found.mechanisms()[Mechanism.PLAIN]()
    for exchange, message, wanted in ((before, b"\0alice\0sesam", "alice"), (after, b"\0bob\0other", "bob")):
        step = exchange.step(message)
        assert (check := getattr(step, "check", None)) is not None
        assert check() == Success(user(wanted))


@pytest.mark.parametrize(("principal", "allowed"), [(user("alice"), True), (user("bob"), False), (None, False)])
def test_rules_are_about_who_it_is(principal: Principal | None, allowed: bool) -> None:
    rule = Rule(
        principals=frozenset({user("alice")}),
        operations=frozenset({Operation.READ}),
        resource_type=ResourceType.TOPIC,
        names=("orders",),
    )
    access = ListenerSecurity(rules=Rules((rule,))).access(principal, "10.0.0.1")
    assert access.allows(Operation.READ, ResourceType.TOPIC, "orders") is allowed
