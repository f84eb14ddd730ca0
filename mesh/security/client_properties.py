"""librdkafka's properties about finding a cluster and being let in, as far as our own connections honour them.

A property that is neither honoured nor without meaning for reading records is named by `reason_against`; a cluster with
such a one is read by librdkafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mesh.security.scram import ScramHash

PLAIN: Final = "PLAIN"
SCRAM: Final[Mapping[str, ScramHash]] = {"SCRAM-SHA-256": ScramHash.SHA_256, "SCRAM-SHA-512": ScramHash.SHA_512}
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_HONOURED: Final = frozenset(
    {
        "bootstrap.servers",
        "broker.address.family",
        "client.id",
        "client.rack",
        "enable.ssl.certificate.verification",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.ca.pem",
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
        *("broker.address.ttl", "socket.keepalive.enable", "socket.nagle.disable"),
        *("topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.interval.ms"),
        *("topic.metadata.refresh.sparse", "retry.backoff.ms", "retry.backoff.max.ms"),
        *("api.version.request", "api.version.request.timeout.ms", "connections.max.idle.ms", "socket.max.fails"),
        *("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "receive.message.max.bytes"),
        "max.in.flight.requests.per.connection",
    }
)
"""The group, librdkafka's own log, and pace: nothing that decides which records are read or who is let in."""


def reason_against(properties: Mapping[str, str]) -> str | None:
    """Why records cannot be read over our own connection with these properties; None if they can."""
    protocol = protocol_of(properties)
    for name in sorted(properties):
        if name in ("sasl.mechanism", "sasl.mechanisms"):
            if properties[name] not in (PLAIN, *SCRAM) and protocol.startswith("sasl"):
                return f"{name} is {properties[name]}; {', '.join((PLAIN, *SCRAM))} are known"
        elif name not in _HONOURED and name not in _ABOUT_OTHER_THINGS:
            return f"the property {name} is known to librdkafka only"
    if protocol not in _PROTOCOLS:
        return f"security.protocol is {protocol}"
    if protocol.startswith("sasl") and mechanism_of(properties) is None:
        return "librdkafka's default mechanism, GSSAPI, is known to librdkafka only"
    if properties.get("ssl.ca.location") == "probe":
        return "ssl.ca.location is probe, which is known to librdkafka only"
    return None


def protocol_of(properties: Mapping[str, str]) -> str:
    return properties.get("security.protocol", "plaintext").lower()


def mechanism_of(properties: Mapping[str, str]) -> str | None:
    return properties.get("sasl.mechanisms", properties.get("sasl.mechanism"))
