"""Data keys of `encrypt`: made and decrypted with a file of keys, or by a Vault."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mesh.interceptors.shipped.files import read_file
from mesh.interceptors.shipped.vault import Vault
from mesh.interceptors.spi import CannotBegin

KEY: Final = 32
"""The size of every key in bytes: AES-256."""
NONCE: Final = 12


class NotDecrypted(Exception):
    """Raised for a value that cannot be decrypted, with the reason."""


class NewKey(NamedTuple):
    """A new data key. description: the description that the header of each record encrypted with it contains."""

    key: bytes
    description: Mapping[str, str]


class DataKeys(Protocol):
    """The maker of data keys, which also decrypts those in headers."""

    def new(self) -> NewKey: ...

    def open_key(self, description: Mapping[str, object]) -> bytes:
        """Returns the data key that a header describes. Raises NotDecrypted."""


class FileKeys:
    """Data keys that are encrypted with a key from a file. Implements `DataKeys`."""

    def __init__(self, file: Path) -> None:
        """Raises CannotBegin."""
        self._ciphers: Final = {name: AESGCM(key) for name, key in keys_of(file).items()}
        self._current: Final = next(iter(self._ciphers))

    def new(self) -> NewKey:
        data, nonce, name = os.urandom(KEY), os.urandom(NONCE), self._current
        wrapped = nonce + self._ciphers[name].encrypt(nonce, data, name.encode())
        return NewKey(data, {"key": name, "data": base64.b64encode(wrapped).decode()})

    def open_key(self, description: Mapping[str, object]) -> bytes:
        name, data = description.get("key"), description.get("data")
        try:
            wrapped = base64.b64decode(str(data), validate=True)
        except ValueError:
            raise NotDecrypted("a data key that is none") from None
        if not isinstance(name, str) or name not in self._ciphers:
            raise NotDecrypted(f"key {name!r} is not in the key file")
        try:
            return self._ciphers[name].decrypt(wrapped[:NONCE], wrapped[NONCE:], name.encode())
        except (InvalidTag, ValueError):
            raise NotDecrypted(f"key {name!r} is another one, or the header was changed") from None


class VaultKeys:
    """Data keys that the transit engine of a Vault makes and decrypts. Implements `DataKeys`."""

    def __init__(self, vault: Vault) -> None:
        self._vault: Final = vault

    def new(self) -> NewKey:
        key, ciphertext = self._vault.data_key()
        return NewKey(key, {"vault": ciphertext})

    def open_key(self, description: Mapping[str, object]) -> bytes:
        ciphertext = description.get("vault")
        if not isinstance(ciphertext, str):
            raise NotDecrypted("a data key that is not of a Vault")
        key = self._vault.decrypted(ciphertext)
        if key is None or len(key) != KEY:
            raise NotDecrypted("a data key that the Vault does not decrypt")
        return key


def keys_of(file: Path) -> dict[str, bytes]:
    """Returns the keys in a file, by name. Raises CannotBegin for a file without keys, or with anything else."""
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


def description_in(header: bytes, name: str) -> Mapping[str, object]:
    """Returns the description of a data key in a header. name: the name of the header. Raises NotDecrypted."""
    try:
        description = json.loads(header)
    except ValueError:
        description = None
    if not isinstance(description, dict):
        raise NotDecrypted(f"a header {name} that is none")
    return description
