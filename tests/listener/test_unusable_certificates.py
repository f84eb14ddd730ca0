"""Messages about a certificate and a key that cannot be used: they name the file at fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from mesh.config.security.model import TlsConfig
from mesh.listener.tls import server_context
from tests.integration.security.certificates import Authority, Pair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def encrypted(authority: Authority) -> Pair:
    """A pair whose key is encrypted with `sesame`."""
    pair = authority.issue("mesh")
    key = load_pem_private_key(pair.key.read_bytes(), None)
    pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame")))
    return pair


def problem_of(pair: Pair, password: str | None = None) -> str:
    config = TlsConfig(certificate_file=str(pair.certificate), key_file=str(pair.key), key_password=password)
    with pytest.raises(ValueError, match=r".") as problem:
        server_context(config)
    return str(problem.value)


def test_an_encrypted_key(encrypted: Pair) -> None:
    assert problem_of(encrypted) == f"{encrypted.key} is encrypted, and key_password is not set"
    assert problem_of(encrypted, "wrong") == f"{encrypted.key} holds no private key in PEM that key_password opens"
    server_context(
        TlsConfig(certificate_file=str(encrypted.certificate), key_file=str(encrypted.key), key_password="sesame")
    )


@pytest.mark.parametrize("content", [b"", b"\0\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_file_with_something_else(authority: Authority, content: bytes) -> None:
    pair = authority.issue("mesh")
    before = pair.key.read_bytes()
    pair.key.write_bytes(content)
    assert problem_of(pair).startswith(f"{pair.key} holds no private key in PEM")
    pair.key.write_bytes(before)
    pair.certificate.write_bytes(content)
    assert str(pair.certificate) in problem_of(pair)


def test_the_key_of_another_certificate(authority: Authority) -> None:
    pair = Pair(authority.issue("one").certificate, authority.issue("two").key)
    assert (
        problem_of(pair)
        == f"{pair.certificate} and {pair.key} are no certificate and its private key (key values mismatch)"
    )
