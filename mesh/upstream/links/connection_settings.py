"""How our own connections to an upstream cluster are made: what librdkafka's properties ask for, put into our terms."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mesh.security.client_properties import mechanism_of, protocol_of, reason_against

_FAMILIES: Final = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}


@dataclass(frozen=True, slots=True, repr=False)
class ConnectionSettings:
    """tls, mechanism (of SASL): None for none. family: of addresses, AF_UNSPEC for any. rack: ours, "" for none. Times
    in seconds."""

    tls: ssl.SSLContext | None = None
    mechanism: str | None = None
    username: str = ""
    password: str = ""
    client_id: str = "kafka-mesh"
    setup_timeout: float = 10.0
    request_timeout: float = 10.0
    backoff: float = 0.1
    most_backoff: float = 1.0
    family: int = socket.AF_UNSPEC
    rack: str = ""


def access_of(properties: Mapping[str, str]) -> ConnectionSettings:
    """For properties with no `reason_against`. Raises OSError or ssl.SSLError for files that cannot be used."""
    protocol = protocol_of(properties)

    def seconds(name: str, default: int) -> float:
        return float(properties.get(name, default)) / 1_000

    return ConnectionSettings(
        tls=_tls(properties) if protocol.endswith("ssl") else None,
        mechanism=mechanism_of(properties) if protocol.startswith("sasl") else None,
        username=properties.get("sasl.username", ""),
        password=properties.get("sasl.password", ""),
        client_id=properties.get("client.id", "kafka-mesh"),
        setup_timeout=seconds("socket.connection.setup.timeout.ms", 10_000),
        request_timeout=seconds("socket.timeout.ms", 10_000),
        backoff=seconds("reconnect.backoff.ms", 100),
        most_backoff=seconds("reconnect.backoff.max.ms", 1_000),
        family=_FAMILIES[properties.get("broker.address.family", "any").lower()],
        rack=properties.get("client.rack", ""),
    )


def own_access(properties: Mapping[str, str]) -> ConnectionSettings | str:
    """How our own connections are made with these; or why they cannot be, and all of it is left to librdkafka."""
    if (reason := reason_against(properties)) is not None:
        return reason
    try:
        return access_of(properties)
    except OSError as problem:  # SSLError is one
        return f"a file of the ssl properties cannot be used: {problem}"


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    if location := properties.get("ssl.ca.location"):
        # librdkafka trusts these alone; the default context would trust the system's too.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if Path(location).is_dir():
            context.load_verify_locations(capath=location)
        else:
            context.load_verify_locations(cafile=location)
    elif authorities := properties.get("ssl.ca.pem"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authorities)
    if properties.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() in ("false", "f", "0"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := properties.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password", ""))
    return context
