"""`encrypt` encrypts values on their way to the cluster, and decrypts them on their way to consumers.

AES-256-GCM, in envelopes: each process encrypts with a data key of its own, by topic, which is made anew after a
while. In a header of each record stands the data key, encrypted with a key of the key file, and which one of these it
was. So a key of the file is never used for records, and one that is to be retired stays there as long as records need
it.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import BeforeValidator, Field

from mesh.interceptors.shipped.files import read_file
from mesh.interceptors.spi import KEEP, CannotBegin, Effect, Interceptor, NoConfig, On, Outcome, Reads, Record, Where
from mesh.quantities import parse_duration

HEADER: Final = "kafka-mesh.encrypt"
KEY: Final = 32
_NONCE: Final = 12
_MOST_RECORDS: Final = 1 << 30
"""Of one data key: random nonces are good for 2^32 (NIST SP 800-38D)."""
_MOST_KEYS: Final = 1_000
"""Data keys that are remembered, on each side."""


class NotDecrypted(Exception):
    """A value that cannot be decrypted, and why."""


class EncryptConfig(NoConfig):
    """keys: the path of a file with a line for each key: its name, and 32 bytes in base64. The first one encrypts."""

    keys: Path = Field(description="A file; each line a name and a key of 32 bytes in base64, the first one encrypts.")
    rotate: Annotated[float, BeforeValidator(parse_duration), Field(gt=0)] = Field(
        default=86_400.0, description="After which a new data key is made."
    )
    plain: bool = Field(default=False, description="Whether consumers get what is not encrypted, too.")


class _DataKey(NamedTuple):
    """until: when it is used no more, by the clock."""

    cipher: AESGCM
    header: bytes
    until: float


class Encrypt(Interceptor):
    """An interceptor that encrypts produced values and decrypts fetched ones. A value that is null, as in a compacted
    topic, stays."""

    reads = Reads.VALUE
    effect = Effect.MAP
    config = EncryptConfig

    def __init__(self, config: EncryptConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._ciphers: Final = {name: AESGCM(key) for name, key in keys_of(config.keys).items()}
        self._current: Final = next(iter(self._ciphers))
        self._rotate: Final = config.rotate
        self._is_plain_allowed: Final = config.plain
        self._clock: Final = clock
        self._own: dict[str, tuple[_DataKey, int]] = {}
        """By topic, with how many records it has encrypted."""
        self._known: dict[bytes, AESGCM] = {}
        """By header."""

    def intercept(self, record: Record, where: Where) -> Outcome:
        if record.value is None:
            return KEEP
        return self._encrypted(record, where.topic) if where.on is On.PRODUCE else self._decrypted(record)

    def _encrypted(self, record: Record, topic: str) -> Outcome:
        assert record.value is not None
        key = self._data_key(topic)
        nonce = os.urandom(_NONCE)
        value = nonce + key.cipher.encrypt(nonce, record.value, None)
        kept = [header for header in record.headers if header[0] != HEADER]
        return record._replace(value=value, headers=(*kept, (HEADER, key.header)))

    def _decrypted(self, record: Record) -> Outcome:
        assert record.value is not None
        headers = [value for name, value in record.headers if name == HEADER]
        if not headers:
            if self._is_plain_allowed:
                return KEEP
            raise NotDecrypted("a value that is not encrypted")
        cipher = self._cipher_of(headers[-1] or b"")
        try:
            value = cipher.decrypt(record.value[:_NONCE], record.value[_NONCE:], None)
        except (InvalidTag, ValueError):
            raise NotDecrypted("a value that was changed, or encrypted otherwise") from None
        kept = tuple(header for header in record.headers if header[0] != HEADER)
        return record._replace(value=value, headers=kept)

    def _data_key(self, topic: str) -> _DataKey:
        now = self._clock()
        key, used = self._own.get(topic, (None, 0))
        if key is None or now >= key.until or used >= _MOST_RECORDS:
            if len(self._own) >= _MOST_KEYS:
                self._own.clear()
            key, used = self._new_key(now + self._rotate), 0
        self._own[topic] = key, used + 1
        return key

    def _new_key(self, until: float) -> _DataKey:
        data, nonce, name = os.urandom(KEY), os.urandom(_NONCE), self._current
        wrapped = nonce + self._ciphers[name].encrypt(nonce, data, name.encode())
        header = json.dumps({"key": name, "data": base64.b64encode(wrapped).decode()}).encode()
        return _DataKey(AESGCM(data), header, until)

    def _cipher_of(self, header: bytes) -> AESGCM:
        cipher = self._known.get(header)
        if cipher is None:
            if len(self._known) >= _MOST_KEYS:
                self._known.clear()
            cipher = self._known[header] = AESGCM(self._unwrapped(header))
        return cipher

    def _unwrapped(self, header: bytes) -> bytes:
        try:
            said = json.loads(header)
            name, wrapped = str(said["key"]), base64.b64decode(said["data"], validate=True)
        except (ValueError, KeyError, TypeError):
            raise NotDecrypted(f"a header {HEADER} that is none") from None
        if name not in self._ciphers:
            raise NotDecrypted(f"key {name!r} is not in the key file")
        try:
            return self._ciphers[name].decrypt(wrapped[:_NONCE], wrapped[_NONCE:], name.encode())
        except (InvalidTag, ValueError):
            raise NotDecrypted(f"key {name!r} is another one, or the header was changed") from None


def keys_of(file: Path) -> dict[str, bytes]:
    """By their names. Raises CannotBegin for a file that has none, or something else."""
    keys: dict[str, bytes] = {}
    for number, line in enumerate(read_file("keys", file).decode(errors="replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, text = line.strip().partition(" ")
        try:
            key = base64.b64decode(text.strip(), validate=True)
        except ValueError:
            key = b""
        if len(key) != KEY or name in keys:
            allowed = f"a name of its own in each line, and {KEY} bytes in base64; line {number} is none"
            raise CannotBegin("keys", str(file), allowed)
        keys[name] = key
    if not keys:
        raise CannotBegin("keys", str(file), "a file with one key at least")
    return keys
