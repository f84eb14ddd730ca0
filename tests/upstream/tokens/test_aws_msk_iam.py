"""Tokens for Amazon MSK have the form that AWS documents for its IAM mechanism over OAUTHBEARER: a URL that is signed
by Signature Version 4, in base64url without padding (the README of aws-msk-iam-sasl-signer-python)."""

from __future__ import annotations

import base64
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from mesh.security.oauthbearer_client import TokenRefused, first_message
from mesh.upstream.tokens.aws_msk_iam import MskIam, fetch

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
IDENTITY = MskIam("eu-central-1")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the credentials of the machine that runs the tests."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    found = fetch(IDENTITY)
    assert found.value.encode() in first_message(found)
    url = urlsplit(base64.urlsafe_b64decode(found.value + "=" * (-len(found.value) % 4)).decode())
    query = {name: values for name, (values,) in parse_qs(url.query).items()}
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-central-1.amazonaws.com", "/")
    day = query["X-Amz-Date"][:8]
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Algorithm"] == "AWS4-HMAC-SHA256"
    assert query["X-Amz-Credential"] == f"{KEY}/{day}/eu-central-1/kafka-cluster/aws4_request"
    assert (query["X-Amz-Expires"], query["X-Amz-SignedHeaders"]) == ("900", "host")
    assert query["X-Amz-Security-Token"] == "session"
    assert len(bytes.fromhex(query["X-Amz-Signature"])) == 32
    assert query["User-Agent"].startswith("aws-msk-iam-sasl-signer-python/")
    signed = time.mktime(time.strptime(query["X-Amz-Date"] + " UTC", "%Y%m%dT%H%M%SZ %Z")) - time.timezone
    assert found.expires_at == signed + 900
    assert SECRET not in str(url)


def test_without_credentials() -> None:
    with pytest.raises(TokenRefused, match="AWS: no credentials were found"):
        fetch(IDENTITY)


def test_a_profile_that_is_not_there() -> None:
    with pytest.raises(TokenRefused, match=r"AWS: The config profile .* could not be found"):
        fetch(MskIam("eu-central-1", profile="missing"))
