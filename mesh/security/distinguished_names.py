"""The principal of a client's certificate: its distinguished name, mapped by Kafka's mapping rules.

The rules are those of ssl.principal.mapping.rules (KIP-371): `RULE:pattern/replacement/`, the same with `L` or `U`
behind it for lower or upper case, and `DEFAULT` for the name as it is. The first rule that matches the whole name wins.
It replaces all matches in the name, as Kafka does: `.*` matches a second time, at the end. In replacements `$1` is a
group.

Patterns are Java regular expressions. What Python reads in another way is translated or refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mesh.security.principals import Principal, user

_RULE: Final = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])+)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_GROUP: Final = re.compile(r"\\(.)|\$([1-9][0-9]*|0(?![0-9]))|(\$)", re.DOTALL)
_PART: Final = re.compile(
    r"""
    \\ (?: [dDwWsSnrtfaA] | [1-9](?![0-9]) | x[0-9a-fA-F]{2} | u(?![dD][89a-fA-F])[0-9a-fA-F]{4} | [^0-9A-Za-z] )
    | \[ \^? (?:
        \\ (?: [dDwWsSnrtfa] | x[0-9a-fA-F]{2} | u(?![dD][89a-fA-F])[0-9a-fA-F]{4} | [^0-9A-Za-z] )
        | (?!--|~~|\|\|) [^][&\\]
    )+ \]
    | \( (?: \? (?: [:=!>] | <[=!] | i[:)] ) | (?!\?) )
    | (?P<any> \. )
    | (?P<end> \$ )
    | [^[(\\]
    """,
    re.VERBOSE | re.DOTALL,
)
"""A part of a pattern that means the same in Java and Python, or can be translated. A set has no sets in it."""
_ANY: Final = r"[^\n\r\u0085\u2028\u2029]"
_END: Final = r"(?=(?:\r\n|(?<!\r)\n|[\r\u0085\u2028\u2029])?\Z)"
"""The meaning of `.` and `$` in Java, which knows more ends of lines than Python."""
_VERSION: Final = 0xA0
"""The tag of the version, which not every certificate has."""
_LONG: Final = 0x80
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The tags of the strings that Java writes as texts: UTF8, Printable, T61, IA5, General and BMP."""
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = str.maketrans({each: f"\\{each}" for each in ',=+<>#;"\\'} | {"\0": "\\00"})
_BLANKS: Final = " \r"
"""Characters that are escaped at the beginning and at the end of a value."""


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
            pattern = re.compile(_translated(found["pattern"]), re.ASCII)
        except re.error as error:
            raise ValueError(f"a regular expression ({error})") from None
        references = list(_GROUP.finditer(found["replacement"]))
        if any(int(each[2] or 0) > pattern.groups or each[3] for each in references):
            raise ValueError(f"a replacement with groups that the pattern has, as $1; it has {pattern.groups}")
        return cls(pattern, found["replacement"], found["case"])

    def apply(self, name: str) -> str | None:
        """Returns the principal's name by this rule; None if the rule does not match the distinguished name."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = "".join(self._pieces(self.pattern, name))
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)

    def _replaced(self, match: re.Match[str]) -> str:
        return _GROUP.sub(lambda part: part[1] or match[int(part[2])] or "", self.replacement)

    def _pieces(self, pattern: re.Pattern[str], name: str) -> Iterator[str]:
        """Yields the name with its matches replaced, as Java's `replaceAll` does. Unlike that of Python, it does not
        try again where a match was empty."""
        at = end = 0
        while at <= len(name) and (match := pattern.search(name, at)) is not None:
            yield name[end : match.start()]
            yield self._replaced(match)
            end = match.end()
            at = max(end, match.start() + 1)
        yield name[end:]


def _translated(pattern: str) -> str:
    """Returns a pattern of Java as one of Python. Raises ValueError for what has no such form."""
    translated, at = "", 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            raise ValueError(f"a regular expression that Java and Python read in the same way, unlike {pattern[at:]!r}")
        translated += _ANY if part["any"] else _END if part["end"] else part[0]
        at = part.end()
    return translated


def principal_of(name: str, rules: Sequence[MappingRule]) -> Principal | None:
    """Returns the principal of a client's certificate; None if no rule matches, so that the client is refused. name: a
    distinguished name as in RFC 2253."""
    for rule in rules or (MappingRule(None),):
        mapped = rule.apply(name)
        if mapped is not None:
            return user(mapped)
    return None


def distinguished_name(certificate: bytes) -> str:
    """Returns the name of the subject of a certificate in DER, as Java's X500Principal.getName (RFC 2253) returns it.

    Rules and ACLs have these names, so they must be those of a broker to the last character. Java reads a value as
    UTF-8, whatever kind of string it is. It writes the values of kinds and of attributes that it does not know as
    hexadecimal numbers. Raises ValueError for bytes that are no certificate.
    """
    relatives = reversed([*_subject(certificate)])
    return ",".join("+".join(_pair(*each) for each in relative) for relative in relatives)


def _subject(certificate: bytes) -> Iterator[list[tuple[str, int, bytes]]]:
    """Yields the relative distinguished names of the subject: attributes with object identifier, tag and value. Behind
    the version stand serial number, algorithm, issuer, validity and subject (RFC 5280)."""
    ((_, content),) = _elements(certificate)
    (_, signed), *_ = _elements(content)
    _, _, _, _, (_, subject), *_ = [each for each in _elements(signed) if each[0] != _VERSION]
    for _, relative in _elements(subject):
        pairs = [_elements(attribute) for _, attribute in _elements(relative)]
        yield [(_identifier(oid), tag, value) for (_, oid), (tag, value) in pairs]


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


def _pair(oid: str, tag: int, value: bytes) -> str:
    """Returns an attribute as Java writes it (`AVA.toRFC2253String`)."""
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _STRINGS:
        size = len(value)
        length = size.to_bytes((size.bit_length() + 7) // 8)
        head = bytes([tag, size]) if size < _LONG else bytes([tag, _LONG + len(length)]) + length
        return f"{keyword or oid}=#{(head + value).hex()}"
    text = value.decode("utf-8", "replace").translate(_ESCAPED)
    inner = text.strip(_BLANKS)
    before = text.index(inner) if inner else len(text)
    blanks = [f"\\{each}" for each in text]
    return f"{keyword}={''.join(blanks[:before])}{inner}{''.join(blanks[before + len(inner) :])}"
