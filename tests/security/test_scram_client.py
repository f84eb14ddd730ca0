"""The client's side of SCRAM: the example of RFC 7677, our own server, and servers that cheat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.security.sasl import Challenge, Failure, Success
from mesh.security.scram import ScramCredential, ScramExchange, ScramHash
from mesh.security.scram_client import ScramClient, ScramRefused

CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def client() -> ScramClient:
    return ScramClient(ScramHash.SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")


def test_the_example_of_rfc_7677() -> None:
    tried = client()
    assert tried.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert tried.final(CHALLENGE) == PROOF
    tried.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("hash", ScramHash)
@given(name=st.text(min_size=1, alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_our_own_server_lets_it_in_with_the_right_password_only(hash: ScramHash, name: str) -> None:
    credential = ScramCredential.of_password(hash, "pencil", b"salt")
    for password, outcome in (("pencil", Success), ("pen", Failure)):
        server = ScramExchange(lambda _: (credential, True), "server")
        tried = ScramClient(hash, name, password, "client")
        challenge = server.step(tried.first())
        assert isinstance(challenge, Challenge)
        result = server.step(tried.final(challenge.token))
        assert isinstance(result, outcome)
        if isinstance(result, Success):
            tried.check(result.token)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"e=other-error",
        CHALLENGE.replace(b"r=rOpr", b"r=xxxx"),
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        CHALLENGE.replace(b"i=4096", b"i=4095"),
        CHALLENGE.replace(b"i=4096", b"i=1000001"),
        CHALLENGE.replace(b"W22", b"!!!"),
    ],
)
def test_challenges_that_are_refused(challenge: bytes) -> None:
    with pytest.raises(ScramRefused):
        client().final(challenge)


@pytest.mark.parametrize("outcome", [b"", b"v=", b"v=AAAA", b"e=invalid-proof"])
def test_a_server_that_does_not_know_the_password(outcome: bytes) -> None:
    tried = client()
    tried.final(CHALLENGE)
    with pytest.raises(ScramRefused):
        tried.check(outcome)
