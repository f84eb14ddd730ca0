"""Tokens of an OpenID Connect issuer, by client credentials."""

from __future__ import annotations

import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Final

from mesh.files import read_file
from mesh.security.oauthbearer_client import Token, TokenRefused
from mesh.security.oidc import (
    OidcRequest,
    assertion,
    by_assertion,
    by_secret,
    refusal_in,
    signing_key,
    token_in,
)

TIMEOUT: Final = 5.0
"""Seconds for which an issuer may send nothing."""
LONGEST: Final = 8.0
"""Seconds for the whole answer, however much data comes."""
LARGEST: Final = 1 << 18
"""The most bytes of an answer."""
_PIECE: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class OidcClient:
    """A client that requests tokens of an issuer, and proves its identity by a secret, by a key, or by an assertion in
    a file that another program keeps up to date. Files are read at each request. ca_file: None for the authorities of
    the system."""

    token_url: str
    client_id: str
    parameters: Mapping[str, str]
    extensions: Mapping[str, str]
    ca_file: str | None = None
    secret: str | None = field(default=None, repr=False)
    is_secret_in_body: bool = False
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    key_id: str | None = None
    certificate_file: str | None = None
    audience: str | None = None
    assertion_file: str | None = None


def fetch(client: OidcClient, clock: Callable[[], float] = time.time) -> Token:
    """Requests a new token. Raises TokenRefused, OSError or ValueError."""
    now = clock()
    return token_in(_post(client, _request(client, now)), now, client.extensions)


def _request(client: OidcClient, now: float) -> OidcRequest:
    if client.secret is not None:
        return by_secret(client.client_id, client.secret, client.parameters, is_in_body=client.is_secret_in_body)
    return by_assertion(client.client_id, _assertion(client, now), client.parameters)


def _assertion(client: OidcClient, now: float) -> str:
    if client.assertion_file is not None:
        return read_file(client.assertion_file).decode().strip()
    assert client.key_file is not None, "the configuration was checked"
    certificate = None if client.certificate_file is None else read_file(client.certificate_file)
    password = None if client.key_password is None else client.key_password.encode()
    try:
        key = signing_key(read_file(client.key_file), password, certificate, client.key_id)
    except ValueError as problem:
        raise TokenRefused(f"{client.key_file}: {problem}") from None
    return assertion(key, client.client_id, client.audience or client.token_url, now, secrets.token_urlsafe(24))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: credentials go only to the address in the configuration."""

    def redirect_request(self, *_: object) -> None:
        return None


def _post(client: OidcClient, asked: OidcRequest) -> bytes:
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded", **asked.headers}
    request = urllib.request.Request(client.token_url, asked.body, headers, method="POST")
    context = ssl.create_default_context(cafile=client.ca_file)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirect())
    try:
        with opener.open(request, timeout=TIMEOUT) as response:
            return _bounded(response)
    except urllib.error.HTTPError as refusal:
        with refusal:
            raise TokenRefused(refusal_in(refusal.code, refusal.read(_PIECE))) from None
    except urllib.error.URLError as problem:
        raise OSError(f"{client.token_url}: {problem.reason}") from None
    except HTTPException as problem:
        raise OSError(f"{client.token_url}: {problem!r}") from None


def _bounded(response: HTTPResponse) -> bytes:
    deadline = time.monotonic() + LONGEST
    text = b""
    while piece := response.read1(_PIECE):
        text += piece
        if len(text) > LARGEST:
            raise TokenRefused(f"an answer of more than {LARGEST} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError(f"not finished within {LONGEST:g} s")
    return text
