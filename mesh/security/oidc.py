"""Requests to the token endpoint of an issuer, and its answers: OAuth 2.0 client credentials (RFC 6749, 4.4), by a
secret, or by a signed assertion of the client (private_key_jwt: RFC 7523, OpenID Connect Core 9)."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus, urlencode

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mesh.security.oauthbearer_client import Token, TokenRefused, token_of

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_LIFETIME: Final = 300
"""The lifetime of an assertion in seconds. Issuers refuse longer ones: Entra above ten minutes."""
_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class OidcRequest:
    """A POST to the token endpoint."""

    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key with which a client signs its assertions. algorithm: its name in JWS. header: the headers by which
    issuers know the key."""

    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey = field(repr=False)
    algorithm: str
    header: Mapping[str, str]


def by_secret(client_id: str, secret: str, parameters: Mapping[str, str], *, is_in_body: bool) -> OidcRequest:
    """Returns a request that authenticates by a secret. is_in_body: client_secret_post, else client_secret_basic."""
    form = {"grant_type": "client_credentials", **parameters}
    if is_in_body:
        return OidcRequest(urlencode({**form, "client_id": client_id, "client_secret": secret}).encode(), {})
    # RFC 6749, 2.3.1: both are form-encoded first.
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
    return OidcRequest(urlencode(form).encode(), {"Authorization": f"Basic {base64.b64encode(pair).decode()}"})


def by_assertion(client_id: str, assertion: str, parameters: Mapping[str, str]) -> OidcRequest:
    form = {
        "grant_type": "client_credentials",
        "client_id": client_id,
        "client_assertion_type": ASSERTION_TYPE,
        "client_assertion": assertion,
        **parameters,
    }
    return OidcRequest(urlencode(form).encode(), {})


def signing_key(pem: bytes, password: bytes | None, certificate: bytes | None, key_id: str | None) -> SigningKey:
    """Returns the key that signs assertions. certificate: PEM; its fingerprint is sent along, as Entra requires. Raises
    ValueError."""
    try:
        key = serialization.load_pem_private_key(pem, password)
    except (ValueError, TypeError) as problem:  # TypeError: a password is missing or superfluous
        raise ValueError(f"not a private key in PEM: {problem}") from None
    header = {} if key_id is None else {"kid": key_id}
    if certificate is not None:
        print_of = x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256())
        header["x5t#S256"] = base64.urlsafe_b64encode(print_of).rstrip(b"=").decode()
    if isinstance(key, rsa.RSAPrivateKey):
        return SigningKey(key, "RS256" if certificate is None else "PS256", header)
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp256r1":
        return SigningKey(key, "ES256", header)
    raise ValueError("a key of another kind; RSA, and EC on P-256, are known")


def assertion(key: SigningKey, client_id: str, audience: str, now: float, unique: str) -> str:
    """Returns a signed assertion of the client. now: seconds since the epoch. unique: a text that was never used
    before."""
    begins = math.floor(now)
    claims = {"iss": client_id, "sub": client_id, "aud": audience, "jti": unique}
    times = {"iat": begins, "nbf": begins, "exp": begins + ASSERTION_LIFETIME}
    return jwt.encode({**claims, **times}, key.key, key.algorithm, dict(key.header))


def token_in(answer: bytes, now: float, extensions: Mapping[str, str]) -> Token:
    """Returns the token in an endpoint's answer. Raises TokenRefused."""
    try:
        found = json.loads(answer)
    except ValueError:
        raise TokenRefused("the answer is no JSON") from None
    if not isinstance(found, dict) or not isinstance(text := found.get("access_token"), str):
        raise TokenRefused("the answer has no access_token")
    lifetime = found.get("expires_in")
    if isinstance(lifetime, str) and lifetime.isdecimal():  # Entra's v1.0 endpoint sends text
        lifetime = float(lifetime)
    if not isinstance(lifetime, int | float) or isinstance(lifetime, bool):
        return token_of(text, None, extensions)
    return token_of(text, now + lifetime, extensions)


def refusal_in(status: int, answer: bytes) -> str:
    """Returns the endpoint's reason for giving no token (RFC 6749, 5.2)."""
    try:
        found = json.loads(answer)
        details = [str(found[name]) for name in ("error", "error_description") if name in found]
    except (ValueError, TypeError):
        details = []
    return f"the issuer answered {status}{': ' if details else ''}{' '.join(details)[:_SHOWN]}"
