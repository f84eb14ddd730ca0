"""OAUTHBEARER (RFC 7628) with JSON web tokens that are signed with a key of a JWKS or with a shared secret.

PyJWT checks the signatures. An algorithm is accepted only from the list, and only with a key that is made for it; the
token's own claims about it do not count. Times are compared with the caller's clock.

A refused token is answered as in RFC 7628: first an error in JSON, which the client acknowledges with one byte, and
only then the failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import jwt

from mesh.security.principals import user
from mesh.security.sasl import Challenge, Failure, Step, Success

_OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ASYMMETRIC: Final = (*_OF_RSA, "ES256", "ES384", "ES512", "EdDSA")
SYMMETRIC: Final = ("HS256", "HS384", "HS512")
LONGEST: Final = 16 * 1024
"""The most bytes of a token."""
LONGEST_KEY_ID: Final = 100
"""Characters of a key id that are remembered and logged."""
_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01(?:[A-Za-z]+=[^\x01]*\x01)*?"
    rb"auth=[Bb]earer +(?P<token>[A-Za-z0-9._~+/-]+=*)\x01(?:[A-Za-z]+=[^\x01]*\x01)*\x01"
)
_ACKNOWLEDGED: Final = b"\x01"


@dataclass(frozen=True, slots=True, repr=False)
class TokenKeys:
    """The keys with which tokens may be signed. all: the keys of a JWKS, a key for several algorithms once for each.
    secret: a shared secret."""

    all: tuple[jwt.PyJWK, ...]
    secret: bytes | None = None


@dataclass(frozen=True, slots=True)
class UnknownKey(Failure):
    """The failure of a token that names a key which is not known. key_id: its beginning."""

    key_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The rules for a token. audiences: it must have one of these. principal_claim: the claim with the user name.
    clock_skew: seconds by which clocks may differ."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    principal_claim: str = "sub"
    clock_skew: float = 30.0


def keys_of_jwks(text: bytes | str) -> TokenKeys:
    """Returns the keys of a JSON web key set (RFC 7517), without those that cannot sign or are of an unknown kind.
    Raises ValueError if none is left, or if the text is not a key set."""
    try:
        entries = [entry for each in json.loads(text)["keys"] for entry in _for_each_algorithm(each)]
        found = jwt.PyJWKSet.from_dict({"keys": entries}).keys
    except Exception as error:
        raise ValueError("not a JSON web key set with a key that is usable") from error
    keys = tuple(key for key in found if key.algorithm_name in ASYMMETRIC and key.public_key_use in (None, "sig"))
    if not keys:
        raise ValueError(f"a JSON web key set without a key for one of {', '.join(ASYMMETRIC)}")
    return TokenKeys(keys)


def _for_each_algorithm(key: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a key for each algorithm that it may be used with: that of `alg`, which is optional (RFC 7517, 4.4). The
    curve of other keys than RSA's names their algorithm."""
    if key.get("kty") == "RSA" and key.get("alg") is None:
        yield from (key | {"alg": algorithm} for algorithm in _OF_RSA)
    else:
        yield key


def check_token(token: str, keys: TokenKeys, rules: TokenRules, now: float) -> Success | Failure:
    """Checks the signature and the claims of a token. now: seconds since the epoch."""
    try:
        header = jwt.get_unverified_header(token)
        key = _key(header, keys)
        if isinstance(key, Failure):
            return key
        material, algorithm = key
        claims = jwt.decode(
            token,
            material,
            algorithms=[algorithm],
            audience=rules.audiences or None,
            issuer=rules.issuer,
            options={
                "require": ["exp", rules.principal_claim],
                "verify_aud": bool(rules.audiences),
                "verify_iss": rules.issuer is not None,
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
    except jwt.PyJWTError as error:
        return Failure("invalid_token", f"{type(error).__name__}: {error}")
    return _judge(claims, rules, now)


def _key(header: Mapping[str, Any], keys: TokenKeys) -> tuple[Any, str] | Failure:
    algorithm, key_id = header.get("alg"), header.get("kid")
    if keys.secret is not None and algorithm in SYMMETRIC:
        return keys.secret, str(algorithm)
    fitting = [key for key in keys.all if key.algorithm_name == algorithm]
    if isinstance(key_id, str):
        if keys.all and all(key.key_id != key_id for key in keys.all):
            shown = key_id[:LONGEST_KEY_ID]
            return UnknownKey("unknown_key", f"no key with the id {shown!r}", key_id=shown)
        fitting = [key for key in fitting if key.key_id == key_id][-1:]
    if not fitting:
        return Failure("invalid_token", f"no key for the algorithm {str(algorithm)[:20]!r}")
    if len(fitting) > 1:
        return Failure("invalid_token", "the token does not say which of several keys signed it")
    return fitting[0], str(algorithm)


def _judge(claims: Mapping[str, Any], rules: TokenRules, now: float) -> Success | Failure:
    name, expires = claims[rules.principal_claim], claims["exp"]
    if not isinstance(name, str) or not name:
        return Failure("invalid_token", f"the claim {rules.principal_claim} is no text")
    starts = [claims[claim] for claim in ("nbf", "iat") if claim in claims]
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in (expires, *starts)):
        return Failure("invalid_token", "exp, nbf or iat is no number", name)
    if expires + rules.clock_skew <= now:
        return Failure("expired_token", f"expired {now - expires:.0f} s ago", name)
    if any(start - rules.clock_skew > now for start in starts):
        return Failure("expired_token", f"not valid for another {max(starts) - now:.0f} s", name)
    return Success(user(name), expires_at=float(expires))


class OAuthBearerExchange:
    """An authentication by OAUTHBEARER (RFC 7628). check: returns the result for a token."""

    def __init__(self, check: Callable[[str], Success | Failure]) -> None:
        self._check = check
        self._failure: Failure | None = None

    def step(self, message: bytes) -> Step:
        if self._failure is not None:
            if message == _ACKNOWLEDGED:
                return replace(self._failure, is_known=True)
            return Failure("malformed", "an error is acknowledged with one byte, %x01", self._failure.name)
        first = _FIRST.fullmatch(message) if len(message) <= LONGEST else None
        if first is None:
            return Failure("malformed", "not n,,^Aauth=Bearer TOKEN^A^A")
        step = self._check(first["token"].decode())
        if isinstance(step, Success) and (first["authzid"] or b"") not in (b"", step.principal[5:].encode()):
            step = Failure("malformed", "an authorization id that is not the principal", step.principal)
        if isinstance(step, Failure) and step.reason != "busy":
            self._failure = step
            return Challenge(b'{"status":"invalid_token"}', step)
        return step
