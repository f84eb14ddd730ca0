"""SCRAM, the client's side, for upstream brokers: RFC 5802 and RFC 7677, without channel binding, as in Kafka."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final

from mesh.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS, ScramHash

_CHALLENGE: Final = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?", re.DOTALL)
_GS2: Final = "n,,"


class ScramRefused(Exception):
    """Raised when the server does not know the password, asks for too many or too few iterations, or does not speak
    SCRAM."""


class ScramClient:
    """One authentication at an upstream broker. nonce: printable, random, without commas."""

    def __init__(self, hash: ScramHash, name: str, password: str, nonce: str) -> None:
        self._hash = hash
        self._password = password
        self._nonce = nonce
        self._first = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return f"{_GS2}{self._first}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Returns the proof. Takes milliseconds for each 4096 iterations: call it in a thread. Raises ScramRefused."""
        text = challenge.decode(errors="replace")
        found = _CHALLENGE.fullmatch(text)
        if found is None:
            raise ScramRefused("not a server-first-message")
        if not found["nonce"].startswith(self._nonce) or found["nonce"] == self._nonce:
            raise ScramRefused("the server's nonce does not continue ours")
        iterations = int(found["iterations"])
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise ScramRefused(f"{iterations} iterations; {LEAST_ITERATIONS} to {MOST_ITERATIONS} are allowed")
        try:
            salt = base64.b64decode(found["salt"], validate=True)
        except ValueError as problem:
            raise ScramRefused("a salt that is not base64") from problem
        hash = self._hash
        salted = hashlib.pbkdf2_hmac(hash.value, self._password.encode(), salt, iterations)
        without_proof = f"c={_base64(_GS2.encode())},r={found['nonce']}"
        message = f"{self._first},{text},{without_proof}".encode()
        key = hash.hmac(salted, b"Client Key")
        signature = hash.hmac(hash.digest(key), message)
        self._server_signature = hash.hmac(hash.hmac(salted, b"Server Key"), message)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without_proof},p={_base64(proof)}".encode()

    def check(self, outcome: bytes) -> None:
        """Checks that the server knows the password too. Raises ScramRefused."""
        if not hmac.compare_digest(outcome, b"v=" + _base64(self._server_signature).encode()):
            raise ScramRefused("the server does not prove that it knows the password")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
