"""The checks of a cluster's login."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mesh.config import login_checks
from mesh.config.login_checks import check_login
from mesh.config.mistakes import format_path
from mesh.config.model import Cluster

SASL = {"security.protocol": "SASL_SSL"}
OIDC = {"url": "https://issuer/token", "client_id": "mesh", "client_secret": "s"}
BY_KEY = {"url": "https://issuer/token", "client_id": "mesh", "private_key_file": "/key"}


def findings(login: Mapping[str, Any], properties: Mapping[str, str] = SASL) -> list[str]:
    tree = {"name": "eu", "bootstrap_servers": "h:1", "login": login, "properties": properties}
    found = check_login(Cluster.model_validate(tree), ("clusters", 0))
    return [f"{format_path(each.path)}: {each.allowed}" for each in found]


@pytest.mark.parametrize(
    "login",
    [
        {"oidc": OIDC},
        {"oidc": {**BY_KEY, "private_key_password": "p", "kid": "k", "certificate_file": "/c"}},
        {"oidc": {"url": "http://localhost:1/t", "client_id": "mesh", "assertion_file": "/a"}},
        {"file": {"path": "/token"}, "extensions": {"logicalCluster": "lkc-1"}},
        {"aws_msk_iam": {"region": "us-gov-west-1", "role_arn": "arn:aws:iam::1:role/x"}},
    ],
)
def test_logins_that_are_good(login: Mapping[str, Any]) -> None:
    assert findings(login) == []
    assert findings(login, {**SASL, "sasl.mechanisms": "OAUTHBEARER"}) == []


@pytest.mark.parametrize(
    ("login", "expected"),
    [
        ({}, "clusters[0].login: exactly one of oidc, file, aws_msk_iam"),
        ({"oidc": OIDC, "file": {"path": "/t"}}, "clusters[0].login: exactly one of oidc"),
        ({"oidc": OIDC, "extensions": {"auth": "x"}}, "clusters[0].login.extensions.auth: an extension whose name"),
        ({"oidc": OIDC, "extensions": {"a1": "x"}}, "clusters[0].login.extensions.a1: an extension whose name"),
        ({"oidc": OIDC, "extensions": {"a": "x\x01y"}}, "clusters[0].login.extensions.a: printable ASCII"),
        ({"oidc": {**BY_KEY, "client_secret": "s"}}, "clusters[0].login.oidc: exactly one of client_secret"),
        ({"oidc": {**OIDC, "kid": "k"}}, "clusters[0].login.oidc.kid: nothing without"),
        ({"oidc": {**OIDC, "url": "http://issuer/t"}}, "clusters[0].login.oidc.url: https; http on"),
        (
            {"aws_msk_iam": {"region": "eu-west-1", "profile": "p", "role_arn": "r"}},
            "clusters[0].login.aws_msk_iam.role_arn: nothing beside profile",
        ),
    ],
)
def test_logins_that_are_not(login: Mapping[str, Any], expected: str) -> None:
    (found,) = findings(login)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, "clusters[0].properties[security.protocol]: sasl_ssl or sasl_plaintext"),
        ({"security.protocol": "ssl"}, "clusters[0].properties[security.protocol]: sasl_ssl or sasl_plaintext"),
        ({**SASL, "sasl.mechanism": "PLAIN"}, "clusters[0].properties[sasl.mechanism]: OAUTHBEARER, or nothing"),
        ({**SASL, "sasl.username": "u"}, "clusters[0].properties[sasl.username]: nothing: the section login"),
        ({**SASL, "sasl.oauthbearer.method": "oidc"}, "clusters[0].properties[sasl.oauthbearer.method]: nothing"),
    ],
)
def test_properties_beside_a_login(properties: Mapping[str, str], expected: str) -> None:
    (found,) = findings({"oidc": OIDC}, properties)
    assert found.startswith(expected)


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_checks, "_SIGNER", "no_such_package")
    (found,) = findings({"aws_msk_iam": {"region": "eu-west-1"}})
    assert found.endswith("pip install 'kafka-mesh[aws-msk-iam]'")
