"""Mapping rules and names by chance: the mesh maps a name as Kafka's own class does, or refuses the rule."""

from __future__ import annotations

import subprocess
from base64 import b64decode, b64encode
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from mesh.security.distinguished_names import MappingRule
from tests.integration.jars import NEWEST_CLIENTS, kafka_jars, missing_programs

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(missing_programs()), reason=f"Kafka's classes need {missing_programs()}"),
]
COUNT = 40_000
USUAL = (
    *("CN=", "OU=", ",", ".*", ".*?", ".", ".+", "(.*)", "(.*?)", "(.)", "([^,]*)", "[^,]*", "^", "$", "|", "(?:a|ab)"),
    *(
        r"\w",
        r"\W+",
        r"(\d+)",
        r"\s",
        r"\S*",
        "[a-z]+",
        "[.]",
        r"[\r\n]",
        "(a|b)*",
        "(?=a)",
        "(?!a)",
        "(?<=,)",
        "(?<!b)",
    ),
)
PATTERNS = (
    *(USUAL * 20),
    *(r"\.", r"\$", r"\\", "(?i)", r"\1", r"\12", r"\b", r"\Z", r"\z", r"\A", r"\x41", r"\u0041", r"\v", r"\h", r"\e"),
    *(
        "[a-c&&[b]]",
        "[a[b]]",
        "[]a]",
        "[^]a]",
        "(?s)",
        "(?m)",
        "(?x)",
        "(?<n>a)",
        "(?>a*)",
        "a*+",
        "a?+",
        "{",
        "}",
        "]",
    ),
    *("a{2}", "a{1,}", "a{,2}", r"\Q.\E", r"\p{L}", "é", "\\é", "\r", "\n", "\x85", "\u2028", "#", " ", "-", "[+--]"),
)
REPLACEMENTS = (
    *(("$1", "$0", "x", "@", r"\$") * 4),
    "$1",
    "$2",
    "$0",
    "$01",
    "$12",
    "$",
    "${n}",
    r"\$",
    r"\\",
    "x",
    "-",
    "@",
    "",
)
NAMES = (
    "CN=",
    "OU=",
    ",",
    "a",
    "b",
    "ab",
    "A",
    "1",
    ".",
    " ",
    "\r",
    "\n",
    "\r\n",
    "\x85",
    "\u2028",
    "\u2029",
    "é",
    "İ",
    "ß",
)


def by_chance(chance: Random) -> tuple[str, str]:
    pattern = "".join(chance.choices(PATTERNS, k=chance.randint(1, 5)))
    replacement = "".join(chance.choices(REPLACEMENTS, k=chance.randint(0, 3)))
    name = "".join(chance.choices(NAMES, k=chance.randint(1, 7)))
    return f"RULE:{pattern}/{replacement}/{chance.choice(['', '', 'L', 'U'])}", name


def mapped_by_kafka(cases: list[tuple[str, str]]) -> list[str | None]:
    """The principals; None for no match, and `!` for a rule that Kafka refuses, or that fails."""
    lines = (" ".join(b64encode(each.encode()).decode() for each in case) for case in cases)
    program = Path(__file__).with_name("PrincipalMapper.java")
    command = ["java", "-XX:+UseSerialGC", "-cp", f"{kafka_jars(NEWEST_CLIENTS)}/*", str(program)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True, timeout=300)
    answers = done.stdout.splitlines()
    assert len(answers) == len(cases)
    return [None if each == "-" else each if each == "!" else b64decode(each[:-1]).decode() for each in answers]


def mapped_here(rule: str, name: str) -> str | None:
    try:
        return MappingRule.parse(rule).apply(name)
    except ValueError:
        return "!"


@pytest.mark.timeout(600)
def test_names_are_mapped_as_by_kafka_or_the_rule_is_refused() -> None:
    chance = Random(45)
    cases = [by_chance(chance) for _ in range(COUNT)]
    outcomes: Counter[str] = Counter()
    different = []
    for case, theirs in zip(cases, mapped_by_kafka(cases), strict=True):
        ours = mapped_here(*case)
        outcome = (
            "refused here"
            if ours == "!"
            else "refused there"
            if theirs == "!"
            else "no match"
            if ours is None
            else "mapped"
        )
        outcomes[outcome] += 1
        if outcome in ("no match", "mapped") and ours != theirs:
            different.append((*case, theirs, ours))
    assert not different, f"{len(different)}: {different[:10]}"
    assert outcomes["mapped"] > COUNT / 50, outcomes
