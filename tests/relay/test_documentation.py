"""docs/relay.md has evidence for everything that was tried."""

from __future__ import annotations

from pathlib import Path

from tests.evidence import statements
from tests.outside.librdkafka_of_relays import RUN
from tests.relay.advertised import OF_4_3, OF_4_4, asked
from tests.relay.advertised_earlier import OF_2_8, OF_3_9
from tests.relay.test_tools import CASES

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "relay.md"


def test_every_row_has_evidence() -> None:
    section = DOCUMENT.read_text().partition("\n## Tested programs\n")[2].partition("\n## ")[0]
    rows = [line[2:].partition(" | ")[0] for line in section.splitlines() if line.startswith("| ")][1:]
    named = statements()["relay.md: Tested programs"]
    assert len(rows) == len(named)
    assert all(row.startswith(statement) for row, statement in zip(rows, named, strict=True))


def test_numbers_are_those_of_the_tests() -> None:
    whole = DOCUMENT.read_text()
    for said in (
        f"4.3.1: {len(asked(OF_4_3))}; 4.4.0: {len(asked(OF_4_4))};",
        f"3.9.1 with KRaft: {len(asked(OF_3_9))}; 2.8.2 with ZooKeeper: {len(asked(OF_2_8))} ",
        f"{len({case.tool for case in CASES})} tools with {len(CASES)} commands",
        f"{len(RUN)} tests that need a cluster",
    ):
        assert said in whole
