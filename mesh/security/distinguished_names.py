"""The principal of a client's certificate: its distinguished name, mapped by Kafka's mapping rules.

The rules are those of ssl.principal.mapping.rules (KIP-371): `RULE:pattern/replacement/`, the same with `L` or `U`
behind it for lower or upper case, and `DEFAULT` for the name as it is. The first rule that matches the whole name wins.
Patterns are Java regular expressions, which for such names equal Python's; in replacements `$1` is a group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mesh.security.principals import Principal, user

_RULE: Final = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])+)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_GROUP: Final = re.compile(r"\\(.)|\$([0-9]{1,2})")


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
    """Returns the name of the subject of a certificate in DER, in the form of Java's X500Principal.getName (RFC
    2253)."""
    from cryptography import x509  # not every mesh has clients with certificates

    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
