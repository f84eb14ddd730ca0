from __future__ import annotations

import pytest

from mesh.security.plain import PlainExchange
from mesh.security.sasl import Mechanism
from mesh.security.session import Session
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, versions
from tests.pool.apis.messages import response

VERSIONS = versions(ApiKey.SASL_HANDSHAKE)[1:]
BOTH = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256)


def client() -> Client:
    """A client that must authenticate; each user's password is the name backwards."""
    session = Session(lambda: dict.fromkeys(BOTH, lambda: PlainExchange(lambda name, word: word == name[::-1])))
    return Client(Mesh(), session=session)


def answered(version: int, error: ErrorCode = ErrorCode.NONE, mechanisms: tuple[str, ...] = ()) -> object:
    return response(ApiKey.SASL_HANDSHAKE, version, error_code=error, mechanisms=mechanisms)


NAMES = ("PLAIN", "SCRAM-SHA-256")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mechanism", NAMES)
def test_a_mechanism_that_is_enabled(version: int, mechanism: str) -> None:
    asked = client()
    answer = asked.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)
    assert answer == answered(version, mechanisms=NAMES)
    assert asked.session.mechanism is Mechanism(mechanism)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "GSSAPI", "plain", ""])
def test_any_other_mechanism(version: int, mechanism: str) -> None:
    asked = client()
    answer = asked.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)
    assert answer == answered(version, ErrorCode.UNSUPPORTED_SASL_MECHANISM, NAMES)
    assert asked.session.mechanism is None


@pytest.mark.parametrize("version", VERSIONS)
def test_in_the_middle_of_an_exchange_or_without_sasl(version: int) -> None:
    asked = client()
    asked.ask(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
    again = asked.ask(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
    assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
    open_to_all = Client(Mesh()).ask(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
    assert open_to_all == answered(version, ErrorCode.ILLEGAL_SASL_STATE)


def test_the_oldest_version_is_advertised_and_refused() -> None:
    """librdkafka up to 2.0 (kcat of Debian) thinks that a broker without it has no SASL."""
    asked = client()
    (offered,) = (each for each in asked.ask(ApiKey.API_VERSIONS, 0).api_keys if each.api_key == ApiKey.SASL_HANDSHAKE)
    assert (offered.min_version, offered.max_version) == (0, 1)
    answer = asked.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
    assert answer == answered(0, ErrorCode.UNSUPPORTED_VERSION, NAMES)
    assert asked.session.mechanism is None
