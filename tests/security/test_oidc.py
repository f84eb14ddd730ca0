"""Requests to a token endpoint, and its possible answers. The forms are those of RFC 6749, RFC 7523 and Entra."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from mesh.security.oauthbearer_client import TokenRefused
from mesh.security.oidc import assertion, by_assertion, by_secret, refusal_in, signing_key, token_in
from tests.security.test_oauthbearer import EC, NOW, RSA

PASSWORD = b"of the key"


def pem(key: object, password: bytes | None = None) -> bytes:
    hidden = serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
    found: bytes = key.private_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden
    )
    return found


def certificate() -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mesh")])
    begins = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(name, name, RSA.public_key(), 1, begins, begins + datetime.timedelta(days=9_000))
    return builder.sign(RSA, hashes.SHA256())


def test_a_secret_in_the_header_is_encoded_as_in_a_form_first() -> None:
    asked = by_secret("mesh@x", "a: b&c", {"scope": "kafka x"}, is_in_body=False)
    assert asked.body == b"grant_type=client_credentials&scope=kafka+x"
    assert base64.b64decode(asked.headers["Authorization"].removeprefix("Basic ")) == b"mesh%40x:a%3A+b%26c"
    assert "a: b&c" not in repr(asked)


def test_a_secret_in_the_body() -> None:
    asked = by_secret("mesh", "s&", {"audience": "kafka"}, is_in_body=True)
    assert asked.headers == {}
    assert parse_qs(asked.body.decode()) == {
        "grant_type": ["client_credentials"],
        "audience": ["kafka"],
        "client_id": ["mesh"],
        "client_secret": ["s&"],
    }


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (EC, "ES256")])
def test_an_assertion_is_signed_and_names_its_audience(key: object, algorithm: str) -> None:
    found = signing_key(pem(key, PASSWORD), PASSWORD, None, "the key")
    text = assertion(found, "mesh", "https://issuer/token", NOW + 0.9, "once")
    assert jwt.get_unverified_header(text) == {"alg": algorithm, "typ": "JWT", "kid": "the key"}
    public = key.public_key()  # type: ignore[attr-defined]
    claims = jwt.decode(
        text,
        public,
        [algorithm],
        audience="https://issuer/token",
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    times = {"iat": NOW, "nbf": NOW, "exp": NOW + 300}
    assert claims == {"iss": "mesh", "sub": "mesh", "aud": "https://issuer/token", "jti": "once", **times}
    form = parse_qs(by_assertion("mesh", text, {"scope": "s"}).body.decode())
    assert form["client_assertion_type"] == ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]
    assert (form["client_assertion"], form["client_id"], form["scope"]) == ([text], ["mesh"], ["s"])


def test_with_a_certificate_it_has_the_form_that_entra_documents() -> None:
    """learn.microsoft.com, "Microsoft identity platform application authentication certificate credentials"."""
    shown = certificate()
    found = signing_key(pem(RSA), None, shown.public_bytes(serialization.Encoding.PEM), None)
    header = jwt.get_unverified_header(assertion(found, "app", "https://login.microsoftonline.com/t", NOW, "once"))
    digest = hashlib.sha256(shown.public_bytes(serialization.Encoding.DER)).digest()
    expected = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert header == {"alg": "PS256", "typ": "JWT", "x5t#S256": expected}


@pytest.mark.parametrize(
    ("text", "password"),
    [
        (b"no key", None),
        (pem(RSA, PASSWORD), None),
        (pem(RSA, PASSWORD), b"wrong"),
        (pem(RSA), PASSWORD),
        (pem(ed25519.Ed25519PrivateKey.generate()), None),
        (pem(ec.generate_private_key(ec.SECP384R1())), None),
    ],
)
def test_keys_that_cannot_sign(text: bytes, password: bytes | None) -> None:
    with pytest.raises(ValueError, match="key"):
        signing_key(text, password, None, None)


def answer(**values: object) -> bytes:
    return json.dumps({"access_token": "opaque", "token_type": "Bearer", **values}).encode()


@pytest.mark.parametrize("lifetime", [60, 60.0, "60"])
def test_a_token_ends_when_the_issuer_says(lifetime: object) -> None:
    assert token_in(answer(expires_in=lifetime), NOW, {"a": "b"}).expires_at == NOW + 60


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff", b"[]", b"{}", answer(), answer(access_token=7), answer(expires_in=True), b'{"access_to'],
)
def test_answers_without_a_token(text: bytes) -> None:
    with pytest.raises(TokenRefused):
        token_in(text, NOW, {})


def test_why_there_is_none() -> None:
    said = json.dumps({"error": "invalid_client", "error_description": "x" * 1_000}).encode()
    assert refusal_in(401, said).startswith("the issuer answered 401: invalid_client xxx")
    assert len(refusal_in(401, said)) < 400
    for text in (b"", b"<html>", b"[]", b"7", b'"error"'):
        assert refusal_in(503, text).startswith("the issuer answered 503")
