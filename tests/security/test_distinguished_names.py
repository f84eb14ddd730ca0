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


UTF8, NUMERIC, PRINTABLE, T61, IA5, VISIBLE, UNIVERSAL, BMP = 0x0C, 0x12, 0x13, 0x14, 0x16, 0x1A, 0x1C, 0x1E
OIDS = {"CN": "550403", "O": "55040a", "email": "2a864886f70d010901", "UID": "0992268993f22c640101", "SN": "550405"}


def element(tag: int, *content: bytes) -> bytes:
    data = b"".join(content)
    size = bytes([len(data)]) if len(data) < 128 else b"\x82" + len(data).to_bytes(2, "big")
    return bytes([tag]) + size + data


def subject(*relatives: list[tuple[str, int, bytes]]) -> bytes:
    """The beginning of a certificate, up to its subject, which may have texts that no library would write."""

    def pair(oid: str, kind: int, value: bytes) -> bytes:
        return element(0x30, element(6, bytes.fromhex(OIDS[oid])), element(kind, value))

    name = element(0x30, *(element(0x31, *(pair(*attribute) for attribute in each)) for each in relatives))
    return element(0x30, element(0x30, element(2, b"\1"), element(0x30), element(0x30), element(0x30), name))


@pytest.mark.parametrize(
    ("kind", "value", "name"),
    [
        (UTF8, "client", "CN=client"),
        (UTF8, "m\xfcller \u65e5\u672c", "CN=m\xfcller \u65e5\u672c"),
        (UTF8, "a,b+c=d", r"CN=a\,b\+c\=d"),
        (UTF8, '"\\<;>#', r"CN=\"\\\<\;\>\#"),
        (UTF8, "  a  b \r", "CN=\\ \\ a  b\\ \\\r"),
        (UTF8, " ", "CN=\\ "),
        (UTF8, "\0a\n", "CN=\\00a\n"),
        (UTF8, "", "CN="),
        (UTF8, b"\xff*", "CN=\N{REPLACEMENT CHARACTER}*"),
        (PRINTABLE, "*", "CN=*"),
        (PRINTABLE, "\xfc", "CN=\xfc"),
        (IA5, "a", "CN=a"),
        (T61, b"\xfc", "CN=\N{REPLACEMENT CHARACTER}"),
        (BMP, "a".encode("utf-16-be"), "CN=\\00a"),
        (NUMERIC, "7", "CN=#120137"),
        (VISIBLE, "admin", "CN=#1a0561646d696e"),
        (UNIVERSAL, "a".encode("utf-32-be"), "CN=#1c0400000061"),
        (VISIBLE, "a" * 200, "CN=#1a81c8" + "61" * 200),
    ],
)
def test_names_are_those_of_java(kind: int, value: str | bytes, name: str) -> None:
    """As X500Principal.getName of Java 17 returned them."""
    content = value if isinstance(value, bytes) else value.encode()
    assert distinguished_name(subject([("CN", kind, content)])) == name


def test_attributes_stand_in_the_order_of_java() -> None:
    assert distinguished_name(subject()) == ""
    assert (
        distinguished_name(subject([("O", UTF8, b"here")], [("CN", UTF8, b"a"), ("UID", UTF8, b"7")]))
        == "CN=a+UID=7,O=here"
    )
    unknown = subject([("email", IA5, b"a@b")], [("SN", UTF8, b"7")], [("CN", UTF8, b"a")], [("CN", UTF8, b"b")])
    assert distinguished_name(unknown) == "CN=b,CN=a,2.5.4.5=#0c0137,1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize("attribute", ["O", "email", "SN"])
def test_no_value_looks_like_another_attribute(attribute: str) -> None:
    """An authority that lets its clients choose such a value would let them choose their principal."""
    name = distinguished_name(subject([("O", UTF8, b"here")], [(attribute, UTF8, b"CN=admin")]))
    assert principal_of(name, [MappingRule.parse("RULE:^.*CN=([^,]*),.*$/$1/")]) is None


def test_patterns_are_those_of_java() -> None:
    """The kelvin sign is no letter for them, and becomes one in lower case."""
    assert principal_of("CN=\N{KELVIN SIGN}ate", [MappingRule.parse(r"RULE:^CN=(\w+)$/$1/L")]) is None


@pytest.mark.parametrize(
    ("rule", "name", "expected"),
    [
        ("RULE:.*/admin/", "CN=a", "adminadmin"),
        ("RULE:.*?/-/", "ab", "-a-b-"),
        *(("RULE:CN=(.*)/$1/", f"CN=a{end}b", None) for end in "\n\r\x85\u2028\u2029"),
        (r"RULE:CN=([.]|[^\n])/$0/", "CN=\r", "CN=\r"),
        (r"RULE:CN=([a-z]*)$\s?/$1/", "CN=a\r", "a"),
        ("RULE:CN=(a|ab)(c|bcd)?/$1-$2/", "CN=abcd", "a-bcd"),
    ],
)
def test_names_are_mapped_as_by_kafka(rule: str, name: str, expected: str | None) -> None:
    """As SslPrincipalMapper of Kafka 4.4.0 did on Java 17; see also `test_mapping_rules_of_kafka`."""
    assert MappingRule.parse(rule).apply(name) == expected


@pytest.mark.parametrize(
    "rule",
    [
        *(
            rf"RULE:{each}/x/"
            for each in (r"\bA", r"A\Z", r"\v", "[a[b]]", "[a-c&&b]", "[a--b]", "(?s).", "(?P<n>a)", "[]a]")
        ),
        *(f"RULE:(a)/{each}/" for each in ("$2", "$12", "$01", "$", "${n}")),
    ],
)
def test_what_java_and_python_read_in_different_ways_is_refused(rule: str) -> None:
    with pytest.raises(ValueError):
        MappingRule.parse(rule)


@given(st.integers(0, 60), st.binary(max_size=4))
def test_bytes_that_are_no_certificate_raise_nothing_else(at: int, more: bytes) -> None:
    certificate = bytearray(CERTIFICATE)
    certificate[at : at + len(more)] = more
    for each in (bytes(certificate), CERTIFICATE[:at], more):
        with suppress(ValueError):
            distinguished_name(each)


CERTIFICATE = signed_by_itself(x509.Name.from_rfc4514_string("CN=client,O=here"))
