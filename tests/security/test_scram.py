"""The vector of RFC 7677 (SCRAM-SHA-256), and a client by RFC 5802's formulas against the server's side."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.security.sasl import Challenge, Failure, Success
from mesh.security.scram import ScramCredential, ScramExchange, ScramHash

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
VECTOR = ScramCredential.of_password(ScramHash.SHA_256, "pencil", SALT, 4096)
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
"""RFC 7677, section 3."""


def exchange(credential: ScramCredential = VECTOR, is_known: bool = True) -> ScramExchange:
    return ScramExchange(lambda name: (credential, is_known), SERVER_NONCE)


def test_the_vector_of_rfc_7677() -> None:
    server = exchange()
    assert server.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    step = server.step(final)
    assert isinstance(step, Success)
    assert (step.principal, step.token) == ("User:user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


class ScramClient:
    """RFC 5802 section 3, by its formulas."""

    def __init__(self, hash: ScramHash, name: str, password: str, nonce: str = CLIENT_NONCE) -> None:
        self.hash, self.password, self.nonce = hash, password, nonce
        self.bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"

    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def final(self, challenge: bytes, before: str = "") -> bytes:
        """before: text in front of the nonce."""
        nonce, salt, iterations = (part[2:] for part in challenge.decode().split(","))
        assert nonce.startswith(self.nonce)
        salted = hashlib.pbkdf2_hmac(self.hash.value, self.password.encode(), base64.b64decode(salt), int(iterations))
        key = hmac.digest(salted, b"Client Key", self.hash.value)
        stored = hashlib.new(self.hash.value, key).digest()
        without_proof = f"c=biws,r={before}{nonce}"
        self.message = f"{self.bare},{challenge.decode()},{without_proof}".encode()
        signature = hmac.digest(stored, self.message, self.hash.value)
        self.server_signature = hmac.digest(
            hmac.digest(salted, b"Server Key", self.hash.value), self.message, self.hash.value
        )
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def log_in(server: ScramExchange, client: ScramClient) -> object:
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    return server.step(client.final(challenge.token))


@pytest.mark.parametrize("hash", ScramHash)
@pytest.mark.parametrize("name", ["alice", "a,b=c", "ü", "User:x"])
def test_names_and_both_hashes(hash: ScramHash, name: str) -> None:
    credential = ScramCredential.of_password(hash, "pä,ss=word", b"salt")
    client = ScramClient(hash, name, "pä,ss=word")
    step = log_in(exchange(credential), client)
    assert isinstance(step, Success)
    assert step.principal == f"User:{name}"
    assert base64.b64decode(step.token.removeprefix(b"v=")) == client.server_signature


@pytest.mark.parametrize("hash", ScramHash)
def test_a_wrong_password_and_a_name_that_nobody_has_look_the_same(hash: ScramHash) -> None:
    credential = ScramCredential.of_password(hash, "right", b"salt")
    wrong = log_in(exchange(credential), ScramClient(hash, "alice", "wrong"))
    unknown = log_in(exchange(credential, is_known=False), ScramClient(hash, "alice", "right"))
    assert wrong == unknown == Failure("wrong_credentials", name="alice")


FIRST_AND_WHY = [
    (b"", "not a client-first-message"),
    (b"n,,n=user", "not a client-first-message"),
    (b"n,,n=,r=abc", "not a client-first-message"),
    (b"n,,m=x,n=user,r=abc", "not a client-first-message"),
    (b"p=tls-unique,,n=user,r=abc", "channel binding"),
    (b"n,a=other,n=user,r=abc", "authorization id"),
    (b"n,,n=us=er,r=abc", "not well formed"),
    (b"n,,n=user,r=abc,tokenauth=true", "extensions"),
    (b"\xff", "UTF-8"),
]


@pytest.mark.parametrize(("message", "why"), FIRST_AND_WHY)
def test_first_messages_that_are_none(message: bytes, why: str) -> None:
    step = exchange().step(message)
    assert isinstance(step, Failure)
    assert step.reason == "malformed"
    assert why in step.detail


@pytest.mark.parametrize("message", [b"n,a=user,n=user,r=abc", b"y,,n=user,r=abc", b"n,a=,n=user,r=abc"])
def test_first_messages_that_may_be(message: bytes) -> None:
    assert isinstance(exchange().step(message), Challenge)


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final.replace(b"c=biws", b"c=!"),
        lambda final: final.replace(SERVER_NONCE.encode(), SERVER_NONCE[:-1].encode()),
        lambda final: final.replace(CLIENT_NONCE.encode(), b""),
        lambda final: final.split(b",p=")[0],
        lambda final: final + b",m=x",
    ],
)
def test_final_messages_that_are_none(change: object) -> None:
    server, client = exchange(), ScramClient(ScramHash.SHA_256, "user", "pencil")
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    step = server.step(change(client.final(challenge.token)))  # type: ignore[operator]
    assert isinstance(step, Failure)


@pytest.mark.parametrize("length", [0, 1, 31, 33, 64])
def test_a_proof_of_another_length_is_wrong(length: int) -> None:
    server, client = exchange(), ScramClient(ScramHash.SHA_256, "user", "pencil")
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    nonce = challenge.token.split(b",")[0]
    proof = base64.b64encode(bytes(length)) or b"===="
    assert isinstance(server.step(b"c=biws," + nonce + b",p=" + proof), Failure)


def test_older_versions_of_librdkafka() -> None:
    """They put their nonce before the whole one a second time."""
    server, client = exchange(), ScramClient(ScramHash.SHA_256, "user", "pencil")
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    assert isinstance(server.step(client.final(challenge.token, before=CLIENT_NONCE)), Success)


def test_a_message_cannot_be_tried_twice() -> None:
    server, client = exchange(), ScramClient(ScramHash.SHA_256, "user", "pencil")
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    final = client.final(challenge.token)
    assert isinstance(server.step(final), Success)
    assert isinstance(server.step(final), Failure)


@given(st.lists(st.binary(max_size=60) | st.sampled_from([each for each, _ in FIRST_AND_WHY]), max_size=4))
def test_whatever_is_sent_nobody_gets_in_without_the_password(messages: list[bytes]) -> None:
    server = exchange()
    for message in messages:
        assert isinstance(server.step(message), Challenge | Failure)


def test_kafka_s_form_of_a_credential() -> None:
    text = VECTOR.format()
    assert text.startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=")
    assert text.endswith(",iterations=4096")
    assert ScramCredential.parse(ScramHash.SHA_256, f" [{text}] ") == VECTOR
    assert VECTOR.matches("pencil")
    assert not VECTOR.matches("pencils")
    assert "pencil" not in repr(VECTOR)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pencil",
        VECTOR.format().replace("4096", "4095"),
        VECTOR.format().replace("4096", "1000001"),
        VECTOR.format().replace("salt=", "salt=!"),
        ScramCredential.of_password(ScramHash.SHA_512, "pencil", SALT).format(),
    ],
)
def test_what_is_no_credential(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        ScramCredential.parse(ScramHash.SHA_256, text)
    assert "pencil" not in str(caught.value)
