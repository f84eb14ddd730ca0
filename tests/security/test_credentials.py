from __future__ import annotations

import pytest

from mesh.security.credentials import Credentials, StoredUser
from mesh.security.scram import ScramCredential, ScramHash

ALICE = StoredUser("alice", password="sesam")
KAFKA_SALT = b"1hsqm8x3ogvolsvzd1o0tgnq2h"
BOB = StoredUser("bob", scram=(ScramCredential.of_password(ScramHash.SHA_512, "sesam", KAFKA_SALT, 8192),))


@pytest.mark.parametrize("users", [[ALICE], [BOB], [ALICE, BOB]])
def test_passwords(users: list[StoredUser]) -> None:
    credentials = Credentials(users, None)
    for user in users:
        assert credentials.verify(user.name, "sesam")
        assert not credentials.verify(user.name, "Sesam")
    assert not credentials.verify("carol", "sesam")
    assert not Credentials([], None).verify("carol", "sesam")


@pytest.mark.parametrize("hash", ScramHash)
def test_a_password_serves_both_hashes(hash: ScramHash) -> None:
    credential, is_known = Credentials([ALICE], None).look_up(hash, "alice")
    assert is_known
    assert credential.matches("sesam")


def test_a_hash_that_a_user_lacks_is_like_a_user_that_nobody_is() -> None:
    credential, is_known = Credentials([BOB], None).look_up(ScramHash.SHA_256, "bob")
    assert not is_known
    assert not credential.matches("sesam")


@pytest.mark.parametrize("hash", ScramHash)
@pytest.mark.parametrize("users", [[], [ALICE], [BOB], [ALICE, BOB]])
def test_strangers_are_told_what_users_are(hash: ScramHash, users: list[StoredUser]) -> None:
    credentials = Credentials(users, b"secret")
    shapes = {
        (len(known.salt), known.iterations)
        for known, is_known in (credentials.look_up(hash, user.name) for user in users)
        if is_known
    } or {(16, 4096)}
    made_up = [credentials.look_up(hash, f"stranger-{number}") for number in range(60)]
    assert not any(is_known for _, is_known in made_up)
    assert {(len(each.salt), each.iterations) for each, _ in made_up} == shapes
    assert len({each.salt for each, _ in made_up}) == 60
    assert all(
        set(each.salt) <= set(KAFKA_SALT + b"0123456789abcdefghijklmnopqrstuvwxyz")
        for each, _ in made_up
        if len(each.salt) == len(KAFKA_SALT)
    )


def test_a_name_that_nobody_has_costs_what_a_user_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time goes into the hash and its iterations."""
    costs: set[tuple[ScramHash, int]] = set()
    matches = ScramCredential.matches

    def noted(credential: ScramCredential, password: str) -> bool:
        costs.add((credential.hash, credential.iterations))
        return matches(credential, password)

    monkeypatch.setattr(ScramCredential, "matches", noted)
    carol = StoredUser("carol", scram=(ScramCredential.of_password(ScramHash.SHA_256, "sesam", b"0" * 16, 5000),))
    credentials = Credentials([ALICE, BOB, carol], b"secret")
    for name in ("alice", "bob", "carol"):
        assert credentials.verify(name, "sesam")
    of_users = costs.copy()
    assert of_users == {(ScramHash.SHA_256, 4096), (ScramHash.SHA_512, 8192), (ScramHash.SHA_256, 5000)}
    costs.clear()
    for number in range(30):
        assert not credentials.verify(f"stranger-{number}", "sesam")
    assert costs == of_users


def test_salts_stay_the_same_with_a_shared_secret_when_users_are_added() -> None:
    """So neither a restart, nor another process, nor a change of the users reveals which names exist."""
    before, after = Credentials([ALICE], b"secret"), Credentials([ALICE, BOB], b"secret")
    for name in ("alice", "stranger"):
        assert before.look_up(ScramHash.SHA_256, name)[0].salt == after.look_up(ScramHash.SHA_256, name)[0].salt
    again = Credentials([ALICE], None).look_up(ScramHash.SHA_256, "stranger")
    assert again == Credentials([ALICE], None).look_up(ScramHash.SHA_256, "stranger")
    assert again != before.look_up(ScramHash.SHA_256, "stranger")


def test_nothing_is_shown() -> None:
    assert "sesam" not in repr(ALICE) + repr(Credentials([ALICE], b"secret"))
