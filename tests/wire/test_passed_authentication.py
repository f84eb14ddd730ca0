"""Whether a broker has let a client in, by the bytes of an authentication that passes."""

from __future__ import annotations

from struct import pack

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.passed_authentication import PassedAuthentication

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE


def handshake(mechanism: str) -> bytes:
    name = mechanism.encode()
    body = pack(">hhihh", 17, 1, 1, -1, len(name)) + name
    return pack(">i", len(body)) + body


def told(error: int, token: bytes, version: int = 1) -> bytes:
    """A broker's answer to a token."""
    if version == 2:
        body = pack(">i", 2) + b"\0" + pack(">h", error) + b"\0" + bytes([len(token) + 1]) + token + bytes(9)
    else:
        body = pack(">ihhi", 2, error, -1, len(token)) + token + bytes(8)
    return pack(">i", len(body)) + body


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("mechanism", "answers"),
    [
        ("PLAIN", [(0, b"", True)]),
        ("PLAIN", [(58, b"", False)]),
        ("SCRAM-SHA-256", [(0, b"r=", False), (0, b"v=", True)]),
        ("OAUTHBEARER", [(0, b"", True)]),
        ("OAUTHBEARER", [(0, b'{"status":"invalid_token"}', False), (58, b"", False)]),
        ("GSSAPI", [(0, b"1", False), (0, b"2", False), (0, b"", False)]),
    ],
)
def test_the_last_token_says_so(mechanism: str, answers: list[tuple[int, bytes, bool]], version: int) -> None:
    authentication = PassedAuthentication()
    authentication.requested(HANDSHAKE, 1, handshake(mechanism))
    for error, token, is_done in answers:
        authentication.answered(AUTHENTICATE, version, told(error, token, version))
        assert authentication.is_done is is_done


def test_nothing_passes_behind_the_name_of_a_mechanism() -> None:
    longer = handshake("PLAIN")[4:] + b"more"
    passed = PassedAuthentication().requested(HANDSHAKE, 1, pack(">i", len(longer)) + longer)
    assert passed == handshake("PLAIN") == PassedAuthentication().requested(HANDSHAKE, 1, handshake("PLAIN"))
    assert PassedAuthentication().requested(AUTHENTICATE, 1, b"anything") == b"anything"


def test_the_answer_to_anything_else_says_so_too() -> None:
    authentication = PassedAuthentication()
    authentication.answered_other(ApiKey.API_VERSIONS)
    assert not authentication.is_done, "brokers tell that to everybody"
    authentication.answered_other(ApiKey.METADATA)
    assert authentication.is_done


def test_what_cannot_be_read_is_refused() -> None:
    for frame in (handshake("PLAIN")[:-1], handshake("PLAIN")[:12]):
        with pytest.raises(ProtocolError):
            PassedAuthentication().requested(HANDSHAKE, 1, frame)
