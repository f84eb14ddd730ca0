"""Rules of `clients` that no client can meet are mistakes: key, value, and allowed values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.config.files import mistakes
from tests.config.test_router_checks import regions

AT = "routers[0].config.rules[0]"
CERTIFICATES = {"certificate_file": "c.pem", "key_file": "k.pem", "client_ca_file": "ca.pem"}


def told(folder: Path, rule: dict[str, Any], **front: Any) -> list[str]:
    tree = regions()
    tree["routers"][0]["config"]["rules"] = [{**rule, "route": "us"}]
    tree["virtual_clusters"][0].update(front)
    return mistakes(folder, tree)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            {"principals": ["User:a*"]},
            f"{AT}.principals[0]: 'User:a*': a pattern of User:ANONYMOUS: without sasl and certificates every",
        ),
        ({"certificates": ["CN=a*"]}, f"{AT}.certificates[0]: 'CN=a*': left out: no virtual cluster that leads here"),
        (
            {"listeners": ["front-*"]},
            f"{AT}.listeners[0]: 'front-*': a pattern of the name of a virtual cluster that leads here: all",
        ),
    ],
)
def test_what_nobody_meets(tmp_path: Path, rule: dict[str, Any], expected: str) -> None:
    (found,) = told(tmp_path, rule)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    "rule",
    [
        {"principals": ["User:a*", "*:ANONYMOUS"]},
        {"listeners": ["none", "a*"]},
        {"client_ids": ["a"], "hosts": ["::1"]},
    ],
)
def test_what_somebody_may_meet(tmp_path: Path, rule: dict[str, Any]) -> None:
    assert not told(tmp_path, rule)


def test_principals_of_sasl(tmp_path: Path) -> None:
    sasl = {"mechanisms": ["PLAIN"], "users": [{"name": "a", "password": "secret-enough"}]}
    assert not told(tmp_path, {"principals": ["User:a*"]}, sasl=sasl)


def test_certificates(tmp_path: Path) -> None:
    for name in CERTIFICATES.values():
        (tmp_path / name).write_text("")
    tls = {key: str(tmp_path / name) for key, name in CERTIFICATES.items()}
    asked = {**tls, "client_authentication": "requested"}
    rule = {"principals": ["User:CN=a*"], "certificates": ["CN=a*"]}
    assert len(told(tmp_path, rule, tls=tls)) == 2
    assert not told(tmp_path, rule, tls=asked)
