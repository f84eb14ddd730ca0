"""Users that may log in with a password: the users of one listener, and invented ones for all other names.

An unknown name gets the same answers as a known one: a salt that stays the same for that name, and a number of
iterations like a real user's (RFC 5802 leaves this to the implementation).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mesh.security.scram import LEAST_ITERATIONS, ScramCredential, ScramHash

SALT_BYTES: Final = 16
_BASE_36: Final = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyz")
"""The characters of salts that Kafka's own tools make (ScramFormatter)."""


@dataclass(frozen=True, slots=True, repr=False)
class StoredUser:
    """A configured user: with a password, or with a SCRAM credential for at least one hash."""

    name: str
    password: str | None = None
    scram: tuple[ScramCredential, ...] = ()


class Credentials:
    """The credentials of users. Raises ValueError for a duplicate name.

    secret: the key for the salts of users with a known password, and of unknown names. Processes with the same secret
    give strangers the same answers. None: made from the users; then salts change with any user.
    """

    def __init__(self, users: Iterable[StoredUser], secret: bytes | None) -> None:
        stored = {user.name: user for user in users}
        self._secret = secret or _secret_of(stored.values())
        self._users: Mapping[str, Mapping[ScramHash, ScramCredential]] = {
            name: self._credentials(user) for name, user in stored.items()
        }
        self._models: Mapping[ScramHash, tuple[ScramCredential, ...]] = {
            hash: tuple(each[hash] for _, each in sorted(self._users.items()) if hash in each) for hash in ScramHash
        }
        self._checked = tuple(next(iter(each.values())) for _, each in sorted(self._users.items()))
        """The credential with which the password of each user is compared."""

    def __len__(self) -> int:
        return len(self._users)

    def look_up(self, hash: ScramHash, name: str) -> tuple[ScramCredential, bool]:
        """Returns the credential of a user and True; else an invented one that no password matches, and False."""
        found = self._users.get(name, {}).get(hash)
        return (found, True) if found is not None else (self._made_up(hash, name), False)

    def verify(self, name: str, password: str) -> bool:
        """Returns whether the password is the user's. It is slow: call it in a thread. An unknown name takes as long as
        a known one, so the time reveals nothing."""
        own = next(iter(self._users.get(name, {}).values()), None)
        credential = own or self._like(self._model(self._checked, ScramHash.SHA_256, name), name)
        return credential.matches(password) and own is not None

    def _credentials(self, user: StoredUser) -> Mapping[ScramHash, ScramCredential]:
        if user.password is None:
            return {credential.hash: credential for credential in user.scram}
        return {
            hash: ScramCredential.of_password(hash, user.password, self._derive(hash, "salt", user.name)[:SALT_BYTES])
            for hash in ScramHash
        }

    def _made_up(self, hash: ScramHash, name: str) -> ScramCredential:
        return self._like(self._model(self._models[hash], hash, name), name)

    def _model(self, models: tuple[ScramCredential, ...], hash: ScramHash, name: str) -> ScramCredential:
        """Returns the credential that an unknown name imitates."""
        if not models:
            salt = self._derive(hash, "salt", name)[:SALT_BYTES]
            return ScramCredential(hash, salt, LEAST_ITERATIONS, bytes(hash.size), bytes(hash.size))
        return models[int.from_bytes(self._derive(hash, "model", name)[:8], "big") % len(models)]

    def _like(self, model: ScramCredential, name: str) -> ScramCredential:
        hash = model.hash
        key = self._derive(hash, "key", name)[: hash.size]
        return ScramCredential(hash, self._salt_like(model.salt, hash, name), model.iterations, key, key)

    def _salt_like(self, model: bytes, hash: ScramHash, name: str) -> bytes:
        salt = b""
        while len(salt) < len(model):
            salt += self._derive(hash, f"salt{len(salt) or ''}", name)
        if _BASE_36.issuperset(model):
            salt = bytes(sorted(_BASE_36)[byte % 36] for byte in salt)
        return salt[: len(model)]

    def _derive(self, hash: ScramHash, purpose: str, name: str) -> bytes:
        return hmac.digest(self._secret, f"{purpose} {hash.value} {name}".encode(), "sha512")


def _secret_of(users: Iterable[StoredUser]) -> bytes:
    made = hmac.new(b"kafka-mesh", digestmod="sha256")
    for user in sorted(users, key=lambda each: each.name):
        made.update(repr((user.name, user.password)).encode())
        for credential in user.scram:
            made.update(credential.server_key)
    return made.digest()
