"""An OpenID Connect issuer on a port of this machine: it publishes keys, and gives tokens to clients it knows."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from mesh.security.oidc import ASSERTION_TYPE

AUDIENCE = "kafka"
CLIENT, SECRET = "mesh@example", "right: & secret"


class Issuer:
    """An issuer of tokens. lifetime: seconds of its tokens. fails: how many requests it refuses. given: the claims of
    its tokens. asked: the forms of all requests. client_key: the key that must have signed an assertion."""

    def __init__(self, lifetime: int = 300) -> None:
        self.lifetime = lifetime
        self.fails = 0
        self.given: list[Mapping[str, Any]] = []
        self.asked: list[Mapping[str, str]] = []
        self.client_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer._send(self, 200, issuer._keys())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                issuer._send(self, *issuer._answer(dict(parse_qsl(body)), self.headers["Authorization"]))

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.token_url = f"{self.url}/token"
        self.keys_url = f"{self.url}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token(self, **changes: Any) -> str:
        """A token without a request for it."""
        now = int(time.time())
        claims = {"sub": "mesh", "iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + self.lifetime}
        claims |= {"jti": secrets.token_hex(8), **changes}
        return jwt.encode(claims, self._key, "RS256", {"kid": "issuer"})

    def _keys(self) -> Mapping[str, Any]:
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": "issuer", "alg": "RS256", "use": "sig"}]}

    def _answer(self, form: Mapping[str, str], authorization: str | None) -> tuple[int, Mapping[str, Any]]:
        self.asked.append(form)
        if self.fails:
            self.fails -= 1
            return 503, {}
        if form.get("grant_type") != "client_credentials" or not self._is_known(form, authorization):
            return 401, {"error": "invalid_client", "error_description": "nobody I know"}
        text = self.token()
        self.given.append(jwt.decode(text, options={"verify_signature": False}))
        return 200, {"access_token": text, "token_type": "Bearer", "expires_in": self.lifetime}

    def _is_known(self, form: Mapping[str, str], authorization: str | None) -> bool:
        if authorization is not None:
            name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            return (unquote_plus(name), unquote_plus(secret)) == (CLIENT, SECRET)
        if form.get("client_assertion_type") == ASSERTION_TYPE:
            try:
                public = self.client_key.public_key()
                claims = jwt.decode(form["client_assertion"], public, ["RS256", "PS256"], audience=self.token_url)
            except jwt.PyJWTError:
                return False
            return bool(claims["iss"] == claims["sub"] == form["client_id"] == CLIENT)
        return (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)

    def _send(self, handler: BaseHTTPRequestHandler, status: int, answer: Mapping[str, Any]) -> None:
        body = json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
