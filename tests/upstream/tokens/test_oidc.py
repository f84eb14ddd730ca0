"""Tokens of an issuer over HTTP, by each proof of who asks, and issuers that misbehave."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mesh.security.oauthbearer_client import TokenRefused
from mesh.upstream.tokens.oidc import LARGEST, OidcClient, fetch
from tests.integration.security.issuer import CLIENT, SECRET, Issuer
from tests.security.test_oauthbearer import RSA
from tests.security.test_oidc import pem


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.close()


def client(issuer: Issuer, **how: Any) -> OidcClient:
    return OidcClient(issuer.token_url, CLIENT, {"scope": "kafka"}, {"pool": "p"}, **how)


def test_each_proof(issuer: Issuer, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(pem(issuer.client_key, b"password"))
    by_key = client(issuer, key_file=str(key), key_password="password")
    for each in (client(issuer, secret=SECRET), client(issuer, secret=SECRET, is_secret_in_body=True), by_key):
        now = time.time()
        found = fetch(each, lambda now=now: now)  # type: ignore[misc]
        assert (found.principal, found.expires_at, found.extensions) == ("mesh", now + 300, {"pool": "p"})
    assert [form["scope"] for form in issuer.asked] == ["kafka"] * 3
    assertion = tmp_path / "assertion"
    assertion.write_text(issuer.asked[-1]["client_assertion"] + "\n")
    assert fetch(client(issuer, assertion_file=str(assertion))).principal == "mesh"
    assert len(issuer.given) == 4


def test_a_login_without_proof(issuer: Issuer, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(pem(RSA))
    for each in (client(issuer, secret="wrong"), client(issuer, key_file=str(key))):
        with pytest.raises(TokenRefused, match="the issuer answered 401: invalid_client nobody I know"):
            fetch(each)
    key.write_text("no key")
    with pytest.raises(TokenRefused, match=r"key\.pem: not a private key in PEM"):
        fetch(client(issuer, key_file=str(key)))
    with pytest.raises(OSError, match="assertion"):
        fetch(client(issuer, assertion_file=str(tmp_path / "assertion")))


class Misbehaving(BaseHTTPRequestHandler):
    """Answers by what the path says."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))  # otherwise closing would reset the connection
        match self.path:
            case "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "/token")
                self.end_headers()
            case "/long":
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b" " * (LARGEST + 1))
            case _:
                self.wfile.write(b"what is this\r\n\r\n")

    def do_GET(self) -> None:
        self.asked.append("GET")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/elsewhere", "the issuer answered 302"),
        ("/long", f"an answer of more than {LARGEST} bytes"),
        ("/nonsense", "BadStatusLine"),
    ],
)
def test_issuers_that_misbehave(path: str, reason: str) -> None:
    server = HTTPServer(("127.0.0.1", 0), Misbehaving)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Misbehaving.asked.clear()
    try:
        with pytest.raises((TokenRefused, OSError), match=reason):
            fetch(OidcClient(f"http://127.0.0.1:{server.server_port}{path}", "mesh", {}, {}, secret="s"))
        assert Misbehaving.asked == [path], "credentials go nowhere else"
    finally:
        server.shutdown()
        server.server_close()


def test_an_issuer_that_is_not_there() -> None:
    with pytest.raises(OSError, match=r"http://127\.0\.0\.1:1/token: .*refused"):
        fetch(OidcClient("http://127.0.0.1:1/token", "mesh", {}, {}, secret="s"))
