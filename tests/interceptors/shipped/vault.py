"""A Vault with one key of the transit engine: its API as documented, on a socket of this machine."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TOKEN = "hvs.a-token"


class FakeVault(ThreadingHTTPServer):
    """A fake Vault. asked: paths. keys: of each version; the last one encrypts. oldest: the lowest version that may be
    used."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.namespaces: list[str | None] = []
        self.keys = [AESGCM.generate_key(256)]
        self.oldest = 1
        self.is_sealed = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def rotate(self) -> None:
        self.keys.append(AESGCM.generate_key(256))

    def encrypted(self, data: bytes) -> str:
        nonce = os.urandom(12)
        sealed = nonce + AESGCM(self.keys[-1]).encrypt(nonce, data, None)
        return f"vault:v{len(self.keys)}:{base64.b64encode(sealed).decode()}"

    def decrypted(self, ciphertext: str) -> bytes | None:
        try:
            _, version, text = ciphertext.split(":")
            sealed = base64.b64decode(text, validate=True)
            if int(version[1:]) < self.oldest:
                return None
            return AESGCM(self.keys[int(version[1:]) - 1]).decrypt(sealed[:12], sealed[12:], None)
        except (ValueError, IndexError, InvalidTag):
            return None


class Handler(BaseHTTPRequestHandler):
    server: FakeVault

    def do_POST(self) -> None:
        vault = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        vault.asked.append(self.path)
        vault.namespaces.append(self.headers.get("X-Vault-Namespace"))
        if vault.is_sealed:
            self._answer(503, {"errors": ["Vault is sealed"]})
        elif self.headers.get("X-Vault-Token") != TOKEN:
            self._answer(403, {"errors": ["permission denied"]})
        elif self.path == "/v1/transit/datakey/plaintext/orders":
            key = os.urandom(body["bits"] // 8)
            self._answer(
                200, {"data": {"plaintext": base64.b64encode(key).decode(), "ciphertext": vault.encrypted(key)}}
            )
        elif self.path == "/v1/transit/decrypt/orders":
            data = vault.decrypted(body["ciphertext"])
            if data is None:
                self._answer(400, {"errors": ["invalid ciphertext"]})
            else:
                self._answer(200, {"data": {"plaintext": base64.b64encode(data).decode()}})
        else:
            self._answer(404, {"errors": []})

    def log_message(self, format: str, *arguments: object) -> None:
        """Writes nothing."""

    def _answer(self, code: int, description: Any) -> None:
        body = json.dumps(description).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running() -> Iterator[FakeVault]:
    vault = FakeVault()
    thread = threading.Thread(target=vault.serve_forever)
    thread.start()
    yield vault
    vault.shutdown()
    thread.join()
    vault.server_close()
