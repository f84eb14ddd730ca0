"""SCRAM, the server's side: RFC 5802, RFC 7677, and Kafka's choices in them.

The server stores a salt, a number of iterations, StoredKey and ServerKey (RFC 5802 section 3), never a password; they
do not suffice for a login. The server's part of an exchange costs two HMACs, and the client does the slow work. Only a
password in clear (PLAIN) is slow to check here, in a thread.

As in Kafka, passwords and names are taken as UTF-8 without SASLprep, and there is no channel binding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from mesh.security.principals import user
from mesh.security.sasl import Challenge, Failure, Step, Success

LEAST_ITERATIONS: Final = 4096
"""The lower limit in RFC 7677 and in Kafka."""
MOST_ITERATIONS: Final = 1_000_000
"""The upper limit, since iterations cost time: this many take about a second of a thread."""
_GS2: Final = re.compile(r"(?P<header>(?P<binding>[ny]|p=[^,]*),(?:a=(?P<authzid>[^,]*))?,)(?P<bare>.*)", re.DOTALL)
_FIRST: Final = re.compile(r"n=(?P<name>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,(?P<extensions>.+))?", re.DOTALL)
_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[^,]+),r=(?P<nonce>[^,]+)(?:,.+)?),p=(?P<proof>[^,]+)", re.DOTALL
)
_STORED: Final = re.compile(r"salt=([^,]+),stored_key=([^,]+),server_key=([^,]+),iterations=([0-9]{1,9})")


class ScramHash(Enum):
    """A hash of SCRAM, by its name in hashlib."""

    SHA_256 = "sha256"
    SHA_512 = "sha512"

    def digest(self, data: bytes) -> bytes:
        return hashlib.new(self.value, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.value)

    @property
    def size(self) -> int:
        return hashlib.new(self.value).digest_size


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """The credential that is stored instead of a password."""

    hash: ScramHash
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of_password(
        cls, hash: ScramHash, password: str, salt: bytes, iterations: int = LEAST_ITERATIONS
    ) -> ScramCredential:
        """Makes a credential from a password. Takes milliseconds of a processor for each 4096 iterations; other threads
        run meanwhile."""
        salted = hashlib.pbkdf2_hmac(hash.value, password.encode(), salt, iterations)
        stored_key = hash.digest(hash.hmac(salted, b"Client Key"))
        return cls(hash, salt, iterations, stored_key, hash.hmac(salted, b"Server Key"))

    @classmethod
    def parse(cls, hash: ScramHash, text: str) -> ScramCredential:
        """Parses a credential in Kafka's form (ScramCredentialUtils), which `kafka-configs` and `kafka-mesh credential`
        write. Raises ValueError, without the text in it, for anything else."""
        found = _STORED.fullmatch(text.strip().removeprefix("[").removesuffix("]"))
        if found is None:
            raise ValueError("salt=...,stored_key=...,server_key=...,iterations=...")
        salt, stored_key, server_key = (_base64(each) for each in found.group(1, 2, 3))
        iterations = int(found[4])
        if not salt or len(stored_key) != hash.size or len(server_key) != hash.size:
            raise ValueError(f"keys of {hash.size} bytes and a salt, in base64")
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise ValueError(f"{LEAST_ITERATIONS} to {MOST_ITERATIONS} iterations")
        return cls(hash, salt, iterations, stored_key, server_key)

    def format(self) -> str:
        """Returns the credential in Kafka's text form."""
        salt, stored, server = (_text(each) for each in (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    def matches(self, password: str) -> bool:
        """Returns whether the credential belongs to this password. As slow as `of_password`."""
        other = self.of_password(self.hash, password, self.salt, self.iterations)
        return hmac.compare_digest(other.stored_key, self.stored_key)


LookUp: TypeAlias = Callable[[str], tuple[ScramCredential, bool]]


class ScramExchange:
    """One authentication: two messages of the client.

    look_up: returns the credential of a name, and whether the user exists. For an unknown name it returns an invented
    one, always the same, so that a stranger cannot see the difference. nonce: the server's nonce, printable and random.
    """

    def __init__(self, look_up: LookUp, nonce: str) -> None:
        self._look_up = look_up
        self._nonce = nonce
        self._started: _Started | None = None

    def step(self, message: bytes) -> Step:
        """Handles the next message of the client."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            return _malformed("the message is no UTF-8")
        started, self._started = self._started, None
        return self._first(text) if started is None else _final(started, text)

    def _first(self, text: str) -> Step:
        header = _GS2.fullmatch(text)
        first = _FIRST.fullmatch(header["bare"]) if header is not None else None
        if header is None or first is None:
            return _malformed("not a client-first-message")
        if header["binding"].startswith("p"):
            return _malformed("channel binding is not supported")
        name = _name(first["name"])
        if name is None or (header["authzid"] is not None and _name(header["authzid"]) not in ("", name)):
            return _malformed("a name that is not well formed, or an authorization id that is not the name")
        if first["extensions"] is not None:
            # Delegation tokens (tokenauth=true) are not supported. An m= extension is one that the server must
            # understand.
            return _malformed("extensions are not supported")
        credential, is_known = self._look_up(name)
        nonce = first["nonce"] + self._nonce
        answer = f"r={nonce},s={_text(credential.salt)},i={credential.iterations}"
        self._started = _Started(
            name, credential, is_known, header["header"], first["nonce"], nonce, f"{header['bare']},{answer}"
        )
        return Challenge(answer.encode())


@dataclass(frozen=True, slots=True, repr=False)
class _Started:
    name: str
    credential: ScramCredential
    is_known: bool
    gs2_header: str
    client_nonce: str
    nonce: str
    messages: str


def _final(started: _Started, text: str) -> Step:
    final = _FINAL.fullmatch(text)
    if final is None:
        return _malformed("not a client-final-message")
    try:
        binding, proof = _base64(final["binding"]), _base64(final["proof"])
    except ValueError:
        return _malformed("not base64")
    # librdkafka before 2.6.1 sends its own nonce twice, before the server's part. Kafka before 3.7.2 accepted that
    # (CVE-2024-56128). The proof covers the message, including the server's part, so no old message can be replayed.
    nonces = (started.nonce, started.client_nonce + started.nonce)
    is_fresh = any(hmac.compare_digest(final["nonce"].encode(), nonce.encode()) for nonce in nonces)
    if binding != started.gs2_header.encode() or not is_fresh:
        return _malformed("another channel binding or nonce than in the first message")
    credential, hash = started.credential, started.credential.hash
    message = f"{started.messages},{final['without_proof']}".encode()
    signature = hash.hmac(credential.stored_key, message)
    key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
    is_right = len(proof) == hash.size and hmac.compare_digest(hash.digest(key), credential.stored_key)
    if not (is_right and started.is_known):
        return Failure("wrong_credentials", name=started.name)
    return Success(user(started.name), b"v=" + base64.b64encode(hash.hmac(credential.server_key, message)))


def _malformed(detail: str) -> Failure:
    return Failure("malformed", detail=detail)


def _name(text: str) -> str | None:
    """Decodes a saslname of RFC 5802, where = and , are written =3D and =2C. None if it is invalid."""
    if re.search(r"=(?!2C|3D)|\0", text):
        return None
    return text.replace("=2C", ",").replace("=3D", "=")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("base64") from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
