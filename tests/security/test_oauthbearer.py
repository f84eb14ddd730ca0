from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from mesh.security.oauthbearer import LONGEST, OAuthBearerExchange, TokenKeys, TokenRules, check_token, keys_of_jwks
from mesh.security.sasl import Challenge, Failure, Success

NOW = 1_000_000.0
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
SECRET = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"


def jwk(key: Any, key_id: str | None, **more: str) -> dict[str, Any]:
    algorithm, name = (ECAlgorithm, "ES256") if isinstance(key, ec.EllipticCurvePrivateKey) else (RSAAlgorithm, "RS256")
    found = {**json.loads(algorithm.to_jwk(key.public_key())), "alg": name, **more}
    return found if key_id is None else {**found, "kid": key_id}


KEYS = keys_of_jwks(json.dumps({"keys": [jwk(RSA, "rsa"), jwk(EC, "ec")]}))
SHARED = TokenKeys((), SECRET)
RULES = TokenRules(issuer="https://issuer", audiences=("kafka", "mesh"))


def token(key: Any = RSA, algorithm: str = "RS256", key_id: str | None = "rsa", **changes: Any) -> str:
    claims = {"sub": "alice", "exp": NOW + 60, "iss": "https://issuer", "aud": "kafka", **changes}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode({name: each for name, each in claims.items() if each is not None}, key, algorithm, headers)


def check(text: str, keys: TokenKeys = KEYS, rules: TokenRules = RULES, now: float = NOW) -> Success | Failure:
    return check_token(text, keys, rules, now)


def reason(step: Success | Failure) -> str:
    return step.reason if isinstance(step, Failure) else "success"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (token(), KEYS),
        (token(EC, "ES256", "ec"), KEYS),
        (token(key_id=None), KEYS),
        (token(aud=["other", "mesh"]), KEYS),
        (token(nbf=NOW + 20, iat=NOW + 20), KEYS),
        (token(SECRET, "HS256", None), SHARED),
        (token(SECRET, "HS512", "whatever"), SHARED),
    ],
)
def test_a_good_token(text: str, keys: TokenKeys) -> None:
    step = check(text, keys)
    assert isinstance(step, Success), step
    assert (step.principal, step.expires_at) == ("User:alice", NOW + 60)


def test_rules_are_optional_and_the_claim_can_be_another() -> None:
    text = token(iss=None, aud=None, preferred_username="bob")
    step = check(text, rules=TokenRules(principal_claim="preferred_username"))
    assert isinstance(step, Success)
    assert step.principal == "User:bob"
    assert reason(check(token(), rules=TokenRules())) == "success", "an audience nobody asked for"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (token(OTHER_RSA), "invalid_token"),
        (token(key_id="gone"), "unknown_key"),
        (token(key_id="ec"), "invalid_token"),
        (token(RSA, "PS256"), "invalid_token"),
        (token(iss="https://other"), "invalid_token"),
        (token(iss=None), "invalid_token"),
        (token(aud="other"), "invalid_token"),
        (token(aud=None), "invalid_token"),
        (token(exp=None), "invalid_token"),
        (token(sub=None), "invalid_token"),
        (token(sub=""), "invalid_token"),
        (token(exp=NOW - 31), "expired_token"),
        (token(nbf=NOW + 31), "expired_token"),
        (token(iat=NOW + 31), "expired_token"),
        (token(SECRET, "HS256", "rsa"), "invalid_token"),
        ("", "invalid_token"),
        ("a.b.c", "invalid_token"),
        (token()[:-3], "invalid_token"),
    ],
)
def test_a_bad_token(text: str, expected: str) -> None:
    assert reason(check(text)) == expected


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
@pytest.mark.parametrize("key_id", ["bare", None])
def test_a_key_that_names_no_algorithm_is_for_all_of_its_kind(algorithm: str, key_id: str | None) -> None:
    bare = {name: each for name, each in jwk(RSA, "bare").items() if name != "alg"}
    keys = keys_of_jwks(json.dumps({"keys": [bare, {**jwk(EC, "ec"), "alg": None}]}))
    assert reason(check(token(RSA, algorithm, key_id), keys)) == "success"
    assert reason(check(token(EC, "ES256", "ec"), keys)) == "success"
    assert reason(check(token(OTHER_RSA, algorithm, key_id), keys)) == "invalid_token"
    assert reason(check(token(EC, "ES256", "bare"), keys)) == "invalid_token"
    assert reason(check(token(SECRET, "HS256", "bare"), keys)) == "invalid_token"


def test_an_algorithm_is_taken_from_no_token() -> None:
    """The two classic attacks: no signature at all, and a public key used as a shared secret."""
    unsigned = jwt.encode({"sub": "alice", "exp": NOW + 60}, "", "none", {"kid": "rsa"})
    assert reason(check(unsigned)) == "invalid_token"
    pem = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    header, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (
            {"alg": "HS256", "kid": "rsa"},
            {"sub": "alice", "exp": NOW + 60, "iss": "https://issuer", "aud": "kafka"},
        )
    )
    import hmac

    signature = base64.urlsafe_b64encode(hmac.digest(pem, header + b"." + claims, "sha256")).rstrip(b"=")
    assert reason(check(b".".join((header, claims, signature)).decode())) == "invalid_token"
    assert reason(check(token(), SHARED)) == "invalid_token", "no key for it"


def test_the_skew_of_clocks() -> None:
    assert reason(check(token(exp=NOW - 29))) == "success"
    assert reason(check(token(exp=NOW - 29), rules=TokenRules(clock_skew=0.0))) == "expired_token"


def test_two_keys_and_a_token_that_names_none() -> None:
    keys = keys_of_jwks(json.dumps({"keys": [jwk(RSA, "1"), jwk(OTHER_RSA, "2")]}))
    assert reason(check(token(key_id=None), keys)) == "invalid_token"
    assert reason(check(token(key_id="1"), keys)) == "success"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": [1]}',
        '{"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}',
        json.dumps({"keys": [jwk(RSA, "x", use="enc")]}),
    ],
)
def test_what_is_no_key_set(text: str) -> None:
    with pytest.raises(ValueError):
        keys_of_jwks(text)


def exchange() -> OAuthBearerExchange:
    return OAuthBearerExchange(lambda text: check(text))


def test_the_exchange() -> None:
    for before in ("n,,", "n,a=alice,", "n,a=,"):
        for extensions in ("", "host=x\x01port=1\x01"):
            step = exchange().step(f"{before}\x01auth=Bearer {token()}\x01{extensions}\x01".encode())
            assert isinstance(step, Success), step


def test_a_refused_token_is_acknowledged_first() -> None:
    server = exchange()
    step = server.step(f"n,,\x01auth=Bearer {token(aud='other')}\x01\x01".encode())
    assert isinstance(step, Challenge)
    assert json.loads(step.token) == {"status": "invalid_token"}
    refused = server.step(b"\x01")
    assert isinstance(refused, Failure)
    assert refused.reason == "invalid_token"


def test_a_token_that_cannot_be_checked_yet_is_not_called_invalid() -> None:
    server = OAuthBearerExchange(lambda _: Failure("busy"))
    step = server.step(f"n,,\x01auth=Bearer {token()}\x01\x01".encode())
    assert isinstance(step, Failure)
    assert step.reason == "busy"


def test_nothing_helps_after_a_refusal() -> None:
    server = exchange()
    server.step(f"n,,\x01auth=Bearer {token(aud='other')}\x01\x01".encode())
    assert isinstance(server.step(f"n,,\x01auth=Bearer {token()}\x01\x01".encode()), Failure)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer " + b"a" * LONGEST + b"\x01\x01",
    ],
)
def test_what_is_no_first_message(message: bytes) -> None:
    step = exchange().step(message)
    assert isinstance(step, Failure)
    assert step.reason == "malformed"


def test_an_authorization_id_that_is_somebody_else() -> None:
    server = exchange()
    assert isinstance(server.step(f"n,a=bob,\x01auth=Bearer {token()}\x01\x01".encode()), Challenge)
    assert isinstance(server.step(b"\x01"), Failure)


@given(st.lists(st.binary(max_size=60), max_size=3))
def test_whatever_is_sent_nobody_gets_in_without_a_token(messages: list[bytes]) -> None:
    server = exchange()
    for message in messages:
        assert isinstance(server.step(message), Challenge | Failure)
