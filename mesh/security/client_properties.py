"""librdkafka's properties for connections and logins, as far as the mesh's own connections honour them.

`unsupported_reason` names a property that they do not honour and that matters for reading. Then librdkafka reads that
cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mesh.security.scram import ScramHash

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
TOKENS: Final = "oauth_cb"
"""The property in which confluent-kafka and the mesh's own connections expect the source of tokens. Users cannot set
it."""
SCRAM: Final[Mapping[str, ScramHash]] = {"SCRAM-SHA-256": ScramHash.SHA_256, "SCRAM-SHA-512": ScramHash.SHA_512}
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_HONOURED: Final = frozenset(
    {
        "bootstrap.servers",
        "broker.address.family",
        "client.id",
        "client.rack",
        "enable.ssl.certificate.verification",
        TOKENS,
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
"""Properties of the group, of librdkafka's log, and of timing. They decide neither which records are read nor which
clients may connect."""


def unsupported_reason(properties: Mapping[str, Any]) -> str | None:
    """Returns the reason why the mesh's own connections cannot read records with these properties; None if they can."""
    protocol = protocol_of(properties)
    for name in sorted(properties):
        if name in ("sasl.mechanism", "sasl.mechanisms"):
            if properties[name] == OAUTHBEARER and TOKENS not in properties and protocol.startswith("sasl"):
                return f"{name} is OAUTHBEARER with tokens that librdkafka fetches; the key login has others"
            if properties[name] not in (PLAIN, OAUTHBEARER, *SCRAM) and protocol.startswith("sasl"):
                return f"{name} is {properties[name]}; {', '.join((PLAIN, *SCRAM, OAUTHBEARER))} are known"
        elif name not in _HONOURED and name not in _ABOUT_OTHER_THINGS:
            return f"the property {name} is known to librdkafka only"
    if protocol not in _PROTOCOLS:
        return f"security.protocol is {protocol}"
    if protocol.startswith("sasl") and mechanism_of(properties) is None:
        return "librdkafka's default mechanism, GSSAPI, is known to librdkafka only"
    if properties.get("ssl.ca.location") == "probe":
        return "ssl.ca.location is probe, which is known to librdkafka only"
    return None


def protocol_of(properties: Mapping[str, Any]) -> str:
    protocol: str = properties.get("security.protocol", "plaintext").lower()
    return protocol


def mechanism_of(properties: Mapping[str, Any]) -> str | None:
    mechanism: str | None = properties.get("sasl.mechanisms", properties.get("sasl.mechanism"))
    return mechanism
