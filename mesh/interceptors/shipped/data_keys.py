"""Where the data keys of `encrypt` come from, and who opens them again: a file with keys, or a Vault."""

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
"""Bytes of every key: AES-256."""
NONCE: Final = 12


class NotDecrypted(Exception):
    """A value that cannot be decrypted, and why."""


class NewKey(NamedTuple):
    """A data key that was made. said: in the header of each record that it encrypts."""

    key: bytes
    said: Mapping[str, str]


class DataKeys(Protocol):
    """Makes data keys, and opens those that stand in headers."""

    def new(self) -> NewKey: ...

    def opened(self, said: Mapping[str, object]) -> bytes:
        """Raises NotDecrypted."""


class FileKeys:
    """Data keys that are encrypted by a key of a file. Implements `DataKeys`."""

    def __init__(self, file: Path) -> None:
        """Raises CannotBegin."""
        self._ciphers: Final = {name: AESGCM(key) for name, key in keys_of(file).items()}
        self._current: Final = next(iter(self._ciphers))

    def new(self) -> NewKey:
        data, nonce, name = os.urandom(KEY), os.urandom(NONCE), self._current
        wrapped = nonce + self._ciphers[name].encrypt(nonce, data, name.encode())
        return NewKey(data, {"key": name, "data": base64.b64encode(wrapped).decode()})

    def opened(self, said: Mapping[str, object]) -> bytes:
        name, data = said.get("key"), said.get("data")
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
    """Data keys that the transit engine of a Vault makes and opens. Implements `DataKeys`."""

    def __init__(self, vault: Vault) -> None:
        self._vault: Final = vault

    def new(self) -> NewKey:
        key, ciphertext = self._vault.data_key()
        return NewKey(key, {"vault": ciphertext})

    def opened(self, said: Mapping[str, object]) -> bytes:
        ciphertext = said.get("vault")
        if not isinstance(ciphertext, str):
            raise NotDecrypted("a data key that is not of a Vault")
        key = self._vault.decrypted(ciphertext)
        if key is None or len(key) != KEY:
            raise NotDecrypted("a data key that the Vault does not decrypt")
        return key


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


def said_in(header: bytes, name: str) -> Mapping[str, object]:
    """What a header says of a data key. name: of the header. Raises NotDecrypted."""
    try:
        said = json.loads(header)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise NotDecrypted(f"a header {name} that is none")
    return said
