"""Who may log in with a password: one listener's users, and made-up ones for all other names.

Whoever tries a name that nobody has gets the same answers as for one that somebody has: a salt that stays the same for
that name, and a number of iterations like a real user's (RFC 5802 leaves this to the implementation).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mesh.security.scram import LEAST_ITERATIONS, ScramCredential, ScramHash

SALT_BYTES: Final = 16
_BASE_36: Final = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyz")
"""Kafka's own tools make salts of these only (ScramFormatter)."""


@dataclass(frozen=True, slots=True, repr=False)
class StoredUser:
    """A user as it was configured: a password, or what SCRAM stores of it, for one hash at least."""

    name: str
    password: str | None = None
    scram: tuple[ScramCredential, ...] = ()


class Credentials:
    """Raises ValueError for a name that stands twice.

    secret: from which salts are derived: of users whose password is known, and of names that nobody has. Processes that
    share it tell strangers the same. None: made from the users; then salts change when any of them does.
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
        """What the password of each user is compared with."""

    def __len__(self) -> int:
        return len(self._users)

    def look_up(self, hash: ScramHash, name: str) -> tuple[ScramCredential, bool]:
        """The credential of a user and True; else one that nobody has the password of, and False."""
        found = self._users.get(name, {}).get(hash)
        return (found, True) if found is not None else (self._made_up(hash, name), False)

    def verify(self, name: str, password: str) -> bool:
        """Whether that is the user's password. Slow: for a thread. A name that nobody has costs what some user costs,
        so that time does not tell who is one."""
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
        """The user whom that name is to look like."""
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
