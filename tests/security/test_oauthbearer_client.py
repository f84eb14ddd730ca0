"""The client's side of OAUTHBEARER: our own server, and texts that are not tokens."""

from __future__ import annotations

import pytest

from mesh.security.oauthbearer import OAuthBearerExchange
from mesh.security.oauthbearer_client import ACKNOWLEDGED, TokenRefused, first_message, reason_in, token_of
from mesh.security.sasl import Challenge, Failure, Success
from tests.security.test_oauthbearer import NOW, check, token


def test_what_is_sent_first() -> None:
    found = token_of("abc.def~==", 7.0, {"logicalCluster": "lkc-1", "identityPoolId": "pool"})
    expected = b"n,,\x01auth=Bearer abc.def~==\x01logicalCluster=lkc-1\x01identityPoolId=pool\x01\x01"
    assert first_message(found) == expected


def test_our_own_server_lets_it_in_with_a_good_token_only() -> None:
    for text, outcome in ((token(), Success), (token(aud="other"), Failure)):
        server = OAuthBearerExchange(check)
        step = server.step(first_message(token_of(text, None, {"traceId": "1"})))
        if outcome is Failure:
            assert isinstance(step, Challenge)
            assert reason_in(step.token) == '{"status":"invalid_token"}'
            step = server.step(ACKNOWLEDGED)
        assert isinstance(step, outcome)


def test_a_jwt_says_when_it_ends_and_whose_it_is() -> None:
    found = token_of(token(), None, {})
    assert (found.expires_at, found.principal) == (NOW + 60, "alice")
    assert token_of(token(), NOW + 5, {}).expires_at == NOW + 5, "who gave it knows better"
    assert token() not in repr(found)


@pytest.mark.parametrize("text", ["", "a b", "a\x01auth=Bearer b", "a\n", "é", "=", "opaque", token(exp=None)])
def test_what_is_no_token_that_says_when_it_ends(text: str) -> None:
    with pytest.raises(TokenRefused) as refusal:
        token_of(text, None, {})
    assert not text or text not in str(refusal.value) or text == "="
