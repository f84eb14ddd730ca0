"""`encrypt` encrypts values on their way to the cluster, and decrypts them on their way to consumers.

It uses AES-256-GCM in envelopes. Each process encrypts with its own data key for each topic, and makes a new one after
a while. A header of each record has the data key, encrypted with a key of the key file, whose name the header has too,
or with a key that a Vault keeps. So such a key never encrypts records, and a key to be retired stays as long as records
need it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from mesh.interceptors.shipped.data_keys import NONCE, DataKeys, FileKeys, NotDecrypted, VaultKeys, description_in
from mesh.interceptors.shipped.vault import Vault, VaultConfig
from mesh.interceptors.spi import KEEP, Effect, Interceptor, NoConfig, On, Outcome, Reads, Record, Where
from mesh.quantities import parse_duration

HEADER: Final = "kafka-mesh.encrypt"
_MOST_RECORDS: Final = 1 << 30
"""The most records for one data key. Random nonces allow 2^32 (NIST SP 800-38D)."""
_MOST_KEYS: Final = 1_000
"""The most data keys that are remembered for encryption, and for decryption."""


class EncryptConfig(NoConfig):
    """The configuration of `encrypt`: either keys or vault."""

    keys: Path | None = Field(
        default=None, description="A file; each line a name and a key of 32 bytes in base64, the first one encrypts."
    )
    vault: VaultConfig | None = Field(default=None, description="A Vault that makes and opens data keys.")
    rotate: Annotated[float, BeforeValidator(parse_duration), Field(gt=0)] = Field(
        default=86_400.0, description="The time after which a new data key is made."
    )
    plain: bool = Field(default=False, description="Whether consumers get unencrypted values, too.")

    @model_validator(mode="after")
    def _one_of_both(self) -> EncryptConfig:
        if (self.keys is None) is (self.vault is None):
            raise PydanticCustomError("encrypt", "a mapping with one of keys and vault")
        return self


class _DataKey(NamedTuple):
    """A data key in use. until: the end of its use, by the clock."""

    cipher: AESGCM
    header: bytes
    until: float


class Encrypt(Interceptor):
    """An interceptor that encrypts produced values and decrypts fetched ones. Null values, as in a compacted topic,
    stay."""

    reads = Reads.VALUE
    effect = Effect.MAP
    config = EncryptConfig

    def __init__(self, config: EncryptConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys: Final = _data_keys(config)
        self._rotate: Final = config.rotate
        self._is_plain_allowed: Final = config.plain
        self._clock: Final = clock
        self._own: dict[str, tuple[_DataKey, int]] = {}
        """The data key of each topic, with the number of records that it has encrypted."""
        self._known: dict[bytes, AESGCM] = {}
        """Ciphers by the header of their data key."""

    def intercept(self, record: Record, where: Where) -> Outcome:
        if record.value is None:
            return KEEP
        return self._encrypted(record, where.topic) if where.on is On.PRODUCE else self._decrypted(record)

    def _encrypted(self, record: Record, topic: str) -> Outcome:
        assert record.value is not None
        key = self._data_key(topic)
        nonce = os.urandom(NONCE)
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
            value = cipher.decrypt(record.value[:NONCE], record.value[NONCE:], None)
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
        made = self._keys.new()
        return _DataKey(AESGCM(made.key), json.dumps(made.description).encode(), until)

    def _cipher_of(self, header: bytes) -> AESGCM:
        cipher = self._known.get(header)
        if cipher is None:
            if len(self._known) >= _MOST_KEYS:
                self._known.clear()
            cipher = self._known[header] = AESGCM(self._keys.open_key(description_in(header, HEADER)))
        return cipher


def _data_keys(config: EncryptConfig) -> DataKeys:
    if config.vault is not None:
        return VaultKeys(Vault(config.vault))
    assert config.keys is not None, "one of both"
    return FileKeys(config.keys)
