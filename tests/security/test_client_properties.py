"""The properties that our own connections support."""

from __future__ import annotations

import pytest

from mesh.security.client_properties import unsupported_reason


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"client.id": "mesh", "socket.timeout.ms": "5000", "log_level": "3", "session.timeout.ms": "9000"},
        {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "ssl.ca.location": "/ca.pem"},
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
        {"sasl.mechanisms": "GSSAPI"},
    ],
)
def test_what_is_honoured(properties: dict[str, str]) -> None:
    assert unsupported_reason(properties) is None


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"security.protocol": "sasl_ssl", "sasl.mechanisms": "GSSAPI"}, "sasl.mechanisms is GSSAPI"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism is OAUTHBEARER"),
        ({"security.protocol": "sasl_ssl"}, "GSSAPI"),
        ({"ssl.cipher.suites": "a"}, "ssl.cipher.suites"),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites"),
        ({"ssl.ca.location": "probe"}, "ssl.ca.location"),
        ({"security.protocol": "quic"}, "quic"),
    ],
)
def test_what_is_not(properties: dict[str, str], named: str) -> None:
    reason = unsupported_reason(properties)
    assert reason is not None
    assert named in reason
