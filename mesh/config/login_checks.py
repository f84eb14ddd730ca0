"""Checks of the login of a cluster together with its properties."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from mesh.config.finding import Finding
from mesh.config.login import LoginConfig, MskIamLogin, OidcLogin
from mesh.config.mistakes import KeyPath
from mesh.config.model import Cluster
from mesh.security.client_properties import OAUTHBEARER, protocol_of

_KINDS: Final = ("oidc", "file", "aws_msk_iam")
_PROOFS: Final = ("client_secret", "private_key_file", "assertion_file")
_OF_A_KEY: Final = ("private_key_password", "kid", "certificate_file", "assertion_audience")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NAME: Final = re.compile(r"(?!auth$)[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x20-\x7e\t\r\n]+")
"""The allowed values of an extension (RFC 7628, 3.1)."""
_SIGNER: Final = "aws_msk_iam_sasl_signer"


def check_login(cluster: Cluster, path: KeyPath) -> Iterator[Finding]:
    """Finds the mistakes in the login of a cluster. path: the path of the cluster."""
    login = cluster.login
    if login is None:
        return
    at = (*path, "login")
    yield from _properties(cluster, path)
    given = [kind for kind in _KINDS if getattr(login, kind) is not None]
    if len(given) != 1:
        yield Finding(at, ", ".join(given) or None, f"exactly one of {', '.join(_KINDS)}")
    yield from _of_kind(login, at)
    for name, value in login.extensions.items():
        if _NAME.fullmatch(name) is None:
            yield Finding((*at, "extensions", name), value, "an extension whose name has letters only, and is not auth")
        elif _VALUE.fullmatch(value) is None:
            yield Finding((*at, "extensions", name), value, "printable ASCII")


def _properties(cluster: Cluster, path: KeyPath) -> Iterator[Finding]:
    other: tuple[KeyPath, ...] = ((*path, "login"),)
    protocol = protocol_of(cluster.properties)
    if not protocol.startswith("sasl"):
        shown = cluster.properties.get("security.protocol")
        yield Finding((*path, "properties", "security.protocol"), shown, "sasl_ssl or sasl_plaintext", other)
    for name, value in cluster.properties.items():
        if name in ("sasl.mechanism", "sasl.mechanisms") and value != OAUTHBEARER:
            yield Finding((*path, "properties", name), value, f"{OAUTHBEARER}, or nothing", other)
        if name in ("sasl.username", "sasl.password") or name.startswith("sasl.oauthbearer."):
            yield Finding(
                (*path, "properties", name), value, "nothing: the section login decides how kafka-mesh logs in", other
            )


def _of_kind(login: LoginConfig, path: KeyPath) -> Iterator[Finding]:
    if login.oidc is not None:
        yield from _oidc(login.oidc, (*path, "oidc"))
    if login.aws_msk_iam is not None:
        yield from _msk_iam(login.aws_msk_iam, (*path, "aws_msk_iam"))


def _oidc(oidc: OidcLogin, path: KeyPath) -> Iterator[Finding]:
    given = [key for key in _PROOFS if getattr(oidc, key) is not None]
    if len(given) != 1:
        yield Finding(path, ", ".join(given) or None, f"exactly one of {', '.join(_PROOFS)}")
    for key in _OF_A_KEY:
        if getattr(oidc, key) is not None and oidc.private_key_file is None:
            yield Finding((*path, key), getattr(oidc, key), "nothing without private_key_file")
    url = urlsplit(oidc.url)
    if url.scheme == "http" and url.hostname not in _LOOPBACK:
        yield Finding((*path, "url"), oidc.url, "https; http on a loopback address only")


def _msk_iam(identity: MskIamLogin, path: KeyPath) -> Iterator[Finding]:
    if identity.profile is not None and identity.role_arn is not None:
        yield Finding((*path, "role_arn"), identity.role_arn, "nothing beside profile", ((*path, "profile"),))
    if find_spec(_SIGNER) is None:
        allowed = "a login whose package is installed: pip install 'kafka-mesh[aws-msk-iam]'"
        yield Finding(path, {}, allowed)
