"""The settings of the mesh's own connections to an upstream cluster, from librdkafka's properties."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mesh.security.client_properties import TOKENS, mechanism_of, protocol_of, unsupported_reason
from mesh.upstream.links.client_tls import ClientTls
from mesh.upstream.links.logins import Logins
from mesh.upstream.tokens.source import TokenSource

_FAMILIES: Final = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}


@dataclass(slots=True, repr=False)
class Login:
    """The user name and password for SASL. They may change; connections that are made afterwards use the new ones."""

    username: str = ""
    password: str = ""

    def take(self, other: Login) -> None:
        self.username, self.password = other.username, other.password


@dataclass(frozen=True, slots=True, repr=False)
class ConnectionSettings:
    """The settings of the mesh's own connections to one cluster. Times are in seconds.

    tls, mechanism (of SASL): None for none. tokens: the source of tokens for OAUTHBEARER. family: the address family,
    AF_UNSPEC for any. rack: the rack of the mesh, "" for none. cluster: the name of the cluster, for reports of
    failures. logins: gets the outcome of each new connection.
    """

    tls: ClientTls | None = None
    mechanism: str | None = None
    login: Login = field(default_factory=Login, compare=False)
    tokens: TokenSource | None = None
    client_id: str = "kafka-mesh"
    setup_timeout: float = 10.0
    request_timeout: float = 10.0
    backoff: float = 0.1
    most_backoff: float = 1.0
    family: int = socket.AF_UNSPEC
    rack: str = ""
    cluster: str = ""
    logins: Logins = field(default_factory=Logins, compare=False)

    @property
    def has_certificate(self) -> bool:
        """Returns whether the connections show a certificate. With TLS 1.3 a broker refuses it after the handshake."""
        return self.tls is not None and self.tls.certificate_file is not None


def connection_settings_of(properties: Mapping[str, Any]) -> ConnectionSettings:
    """Returns the settings in properties with no `unsupported_reason`. Raises OSError or ssl.SSLError for unusable
    files."""
    protocol = protocol_of(properties)

    def seconds(name: str, default: int) -> float:
        return float(properties.get(name, default)) / 1_000

    return ConnectionSettings(
        tls=ClientTls(properties) if protocol.endswith("ssl") else None,
        mechanism=mechanism_of(properties) if protocol.startswith("sasl") else None,
        login=Login(properties.get("sasl.username", ""), properties.get("sasl.password", "")),
        tokens=properties.get(TOKENS),
        client_id=properties.get("client.id", "kafka-mesh"),
        setup_timeout=seconds("socket.connection.setup.timeout.ms", 10_000),
        request_timeout=seconds("socket.timeout.ms", 10_000),
        backoff=seconds("reconnect.backoff.ms", 100),
        most_backoff=seconds("reconnect.backoff.max.ms", 1_000),
        family=_FAMILIES[properties.get("broker.address.family", "any").lower()],
        rack=properties.get("client.rack", ""),
    )


def connection_settings_or_reason(properties: Mapping[str, Any]) -> ConnectionSettings | str:
    """Returns the settings of the mesh's own connections with these properties. If there can be none, so that
    librdkafka must make all connections, returns the reason."""
    if (reason := unsupported_reason(properties)) is not None:
        return reason
    try:
        return connection_settings_of(properties)
    except OSError as problem:  # SSLError is an OSError
        return f"a file of the ssl properties cannot be used: {problem}"
