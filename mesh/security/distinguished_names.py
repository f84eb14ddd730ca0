"""The principal of a client's certificate: its distinguished name, mapped by Kafka's mapping rules.

The rules are those of ssl.principal.mapping.rules (KIP-371): `RULE:pattern/replacement/`, the same with `L` or `U`
behind it for lower or upper case, and `DEFAULT` for the name as it is. The first rule that matches the whole name wins.
Patterns are Java regular expressions, which for such names equal Python's; in replacements `$1` is a group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mesh.security.principals import Principal, user

_RULE: Final = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])+)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_GROUP: Final = re.compile(r"\\(.)|\$([0-9]{1,2})")
_VERSION: Final = 0xA0
"""The tag of the version, which not every certificate has."""
_LONG: Final = 0x80
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1A: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""The encodings of ASN.1's strings by tag: UTF8, Numeric, Printable, T61, IA5, Visible, Universal, BMP. Java reads T61
as Latin-1, too."""


@dataclass(frozen=True, slots=True)
class MappingRule:
    """A rule from distinguished names to principals, as in Kafka's ssl.principal.mapping.rules. pattern: None for
    DEFAULT. case: L, U or nothing."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    @classmethod
    def parse(cls, text: str) -> MappingRule:
        """Parses a rule. Raises ValueError for an invalid one."""
        if text == "DEFAULT":
            return cls(None)
        found = _RULE.fullmatch(text)
        if found is None:
            raise ValueError("DEFAULT, or RULE:pattern/replacement/ with L or U behind it, as in Kafka")
        try:
            pattern = re.compile(found["pattern"].replace(r"\/", "/"))
        except re.error as error:
            raise ValueError(f"a regular expression ({error})") from None
        groups = [int(group[2]) for group in _GROUP.finditer(found["replacement"]) if group[2]]
        if max(groups, default=0) > pattern.groups:
            raise ValueError(f"a replacement with groups that the pattern has; it has {pattern.groups}")
        return cls(pattern, found["replacement"], found["case"])

    def apply(self, name: str) -> str | None:
        """Returns the principal's name by this rule; None if the rule does not match the distinguished name."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        mapped = _GROUP.sub(lambda part: part[1] or match[int(part[2])] or "", self.replacement)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


def principal_of(name: str, rules: Sequence[MappingRule]) -> Principal | None:
    """Returns the principal of a client's certificate; None if no rule matches, so that the client is refused. name: a
    distinguished name as in RFC 2253."""
    for rule in rules or (MappingRule(None),):
        mapped = rule.apply(name)
        if mapped is not None:
            return user(mapped)
    return None


def distinguished_name(certificate: bytes) -> str:
    """Returns the name of the subject of a certificate in DER, in the form of Java's X500Principal.getName (RFC 2253).

    Like a broker it also reads texts with characters that their kind of string does not allow, such as `*` in a
    PrintableString. Raises ValueError for a text that cannot be read at all.
    """
    from cryptography import x509  # not every mesh has clients with certificates

    try:
        return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    except Exception:  # noqa: BLE001 - it has several for what is not as it should be
        return x509.Name(
            x509.RelativeDistinguishedName(
                x509.NameAttribute(x509.ObjectIdentifier(oid), text, _validate=False) for oid, text in attributes
            )
            for attributes in _subject(certificate)
        ).rfc4514_string()


def _subject(certificate: bytes) -> Iterator[list[tuple[str, str]]]:
    """Yields the relative distinguished names of the subject: attributes with object identifier and text. Behind the
    version stand serial number, algorithm, issuer, validity and subject (RFC 5280)."""
    ((_, content),) = _elements(certificate)
    (_, signed), *_ = _elements(content)
    _, _, _, _, (_, subject), *_ = [each for each in _elements(signed) if each[0] != _VERSION]
    for _, relative in _elements(subject):
        pairs = [_elements(attribute) for _, attribute in _elements(relative)]
        yield [(_identifier(oid), _text(tag, value)) for (_, oid), (tag, value) in pairs]


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    """Returns the elements of DER: tag and content. Raises ValueError."""
    found, at = [], 0
    while at < len(data):
        head = data[at : at + 2]
        size, at = head[-1], at + 2
        if size >= _LONG:
            count, size = size - _LONG, int.from_bytes(data[at : at + size - _LONG])
            at += count
        if len(head) < 2 or at + size > len(data):
            raise ValueError("a certificate that ends too early")
        found.append((head[0], data[at : at + size]))
        at += size
    return found


def _identifier(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & (_LONG - 1)
        if byte < _LONG:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2) if numbers else 0
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:]) if numbers else ()))


def _text(tag: int, value: bytes) -> str:
    try:
        return value.decode(_ENCODINGS[tag])
    except (KeyError, UnicodeDecodeError) as problem:
        raise ValueError(f"a subject with a text that cannot be read (string type {tag}): {problem}") from None
