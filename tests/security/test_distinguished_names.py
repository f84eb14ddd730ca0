"""The rules and the cases of Kafka's own documentation (ssl.principal.mapping.rules) and KIP-371."""

from __future__ import annotations

import pytest

from mesh.security.distinguished_names import MappingRule, principal_of

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
