"""How our own connections to an upstream cluster are made: what librdkafka's properties ask for, put into our terms.

A property that is neither honoured here nor without meaning for reading records is named by `reason_against`; a cluster
with such a one is read by librdkafka.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mesh.security.scram import ScramHash

PLAIN: Final = "PLAIN"
SCRAM: Final[Mapping[str, ScramHash]] = {"SCRAM-SHA-256": ScramHash.SHA_256, "SCRAM-SHA-512": ScramHash.SHA_512}
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_HONOURED: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "enable.ssl.certificate.verification",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
    }
)
_ABOUT_OTHER_THINGS: Final = frozenset(
    {
        *("debug", "log_level", "log.connection.close", "log.queue", "log.thread.name"),
        *("coordinator.query.interval.ms", "session.timeout.ms", "metadata.max.age.ms", "max.in.flight"),
        *("check.crcs", "fetch.error.backoff.ms", "fetch.min.bytes", "fetch.wait.max.ms"),
        *("broker.address.ttl", "broker.address.family", "socket.keepalive.enable", "socket.nagle.disable"),
        *("topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.interval.ms"),
        *("topic.metadata.refresh.sparse", "retry.backoff.ms", "retry.backoff.max.ms"),
    }
)
"""The group, librdkafka's own log, and pace: nothing that decides which records are read or who is let in."""


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """tls: None for none. mechanism: SASL's, None for none. Times in seconds."""

    tls: ssl.SSLContext | None = None
    mechanism: str | None = None
    username: str = ""
    password: str = ""
    client_id: str = "kafka-mesh"
    setup_timeout: float = 10.0
    request_timeout: float = 10.0
    backoff: float = 0.1
    most_backoff: float = 1.0


def reason_against(properties: Mapping[str, str]) -> str | None:
    """Why records cannot be read over our own connection with these properties; None if they can."""
    protocol = _protocol(properties)
    for name in sorted(properties):
        if name in ("sasl.mechanism", "sasl.mechanisms"):
            if properties[name] not in (PLAIN, *SCRAM) and protocol.startswith("sasl"):
                return f"{name} is {properties[name]}; {', '.join((PLAIN, *SCRAM))} are known"
        elif name not in _HONOURED and name not in _ABOUT_OTHER_THINGS:
            return f"the property {name} is known to librdkafka only"
    if protocol not in _PROTOCOLS:
        return f"security.protocol is {protocol}"
    if protocol.startswith("sasl") and _mechanism(properties) is None:
        return "librdkafka's default mechanism, GSSAPI, is known to librdkafka only"
    if properties.get("ssl.ca.location") == "probe":
        return "ssl.ca.location is probe, which is known to librdkafka only"
    return None


def access_of(properties: Mapping[str, str]) -> Access:
    """For properties with no `reason_against`. Raises OSError or ssl.SSLError for files that cannot be used."""
    protocol = _protocol(properties)

    def seconds(name: str, default: int) -> float:
        return float(properties.get(name, default)) / 1_000

    return Access(
        tls=_tls(properties) if protocol.endswith("ssl") else None,
        mechanism=_mechanism(properties) if protocol.startswith("sasl") else None,
        username=properties.get("sasl.username", ""),
        password=properties.get("sasl.password", ""),
        client_id=properties.get("client.id", "kafka-mesh"),
        setup_timeout=seconds("socket.connection.setup.timeout.ms", 10_000),
        request_timeout=seconds("socket.timeout.ms", 10_000),
        backoff=seconds("reconnect.backoff.ms", 100),
        most_backoff=seconds("reconnect.backoff.max.ms", 1_000),
    )


def _protocol(properties: Mapping[str, str]) -> str:
    return properties.get("security.protocol", "plaintext").lower()


def _mechanism(properties: Mapping[str, str]) -> str | None:
    return properties.get("sasl.mechanisms", properties.get("sasl.mechanism"))


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    if location := properties.get("ssl.ca.location"):
        # librdkafka trusts these alone; the default context would trust the system's too.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if Path(location).is_dir():
            context.load_verify_locations(capath=location)
        else:
            context.load_verify_locations(cafile=location)
    if properties.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() in ("false", "f", "0"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := properties.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password", ""))
    return context
