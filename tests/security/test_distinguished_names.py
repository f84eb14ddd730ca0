"""The rules and the cases of Kafka's own documentation (ssl.principal.mapping.rules) and KIP-371."""

from __future__ import annotations

from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from mesh.security.distinguished_names import MappingRule, distinguished_name, principal_of
from tests.integration.security.certificates import builder_of

NAME = "CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ([], NAME, f"User:{NAME}"),
        (["DEFAULT"], NAME, f"User:{NAME}"),
        (["RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "DEFAULT"], NAME, "User:serviceuser"),
        (["RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L"], NAME, "User:serviceuser@serviceusers"),
        (["RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"], NAME, "User:SERVICEUSER"),
        (["RULE:^CN=([^,]*)$/$1/", "DEFAULT"], NAME, f"User:{NAME}"),
        (["RULE:CN=(other),.*/$1/"], NAME, None),
        (["RULE:CN=a\\/(.*)/$1\\/x/"], "CN=a/b", "User:b/x"),
    ],
)
def test_the_first_rule_that_matches(rules: list[str], name: str, expected: str | None) -> None:
    assert principal_of(name, [MappingRule.parse(rule) for rule in rules]) == expected


@pytest.mark.parametrize("text", ["", "default", "RULE:x", "RULE:x/y", "RULE:(/y/", "RULE:x/$1/", "RULE:x/y/X", "x/y/"])
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError):
        MappingRule.parse(text)


def signed_by_itself(subject: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return builder_of(subject, subject, key.public_key()).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    "text",
    [
        "CN=client",
        'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h,OU=\\#one\\ ,O=m\xfcller \u65e5\u672c,C=DE',
        "CN=a+OU=b,DC=example,DC=com,UID=7,2.999.1=x,1.3.6.1.4.1.311.20.2.3=y",
        "",
    ],
)
def test_names_are_read_alike_with_and_without_the_strict_reader(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = signed_by_itself(x509.Name.from_rfc4514_string(text))
    strict = distinguished_name(certificate)

    def refuse(_: bytes) -> x509.Certificate:
        raise ValueError("not as it should be")

    monkeypatch.setattr(x509, "load_der_x509_certificate", refuse)
    assert distinguished_name(certificate) == strict


@given(st.integers(0, 60), st.binary(max_size=4))
def test_bytes_that_are_no_certificate_raise_nothing_else(at: int, more: bytes) -> None:
    certificate = bytearray(CERTIFICATE)
    certificate[at : at + len(more)] = more
    for each in (bytes(certificate), CERTIFICATE[:at], more):
        with suppress(ValueError):
            distinguished_name(each)


CERTIFICATE = signed_by_itself(x509.Name.from_rfc4514_string("CN=client,O=here"))
