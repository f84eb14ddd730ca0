"""docs/relay.md names existing tests for everything that was tried."""

from __future__ import annotations

import re
from pathlib import Path

from tests.outside.librdkafka_of_relays import RUN
from tests.relay.advertised import OF_4_3, OF_4_4, asked
from tests.relay.advertised_earlier import OF_2_8, OF_3_9
from tests.relay.test_tools import CASES

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "relay.md"
FOLDERS = ("relay", "integration", "one_node", "outside", "spark")


def rows() -> list[list[str]]:
    """The cells of the table below "What was tried"."""
    section = DOCUMENT.read_text().partition("\n## What was tried\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_row_names_tests_that_exist() -> None:
    assert rows()
    for row in rows():
        named = re.findall(r"`([a-z_]+)/(test_\w+)`", row[-1])
        assert named, row
        for folder, name in named:
            assert folder in FOLDERS
            assert (TESTS / folder / f"{name}.py").is_file(), name


def test_numbers_are_those_of_the_tests() -> None:
    whole = DOCUMENT.read_text()
    for said in (
        f"4.3.1: {len(asked(OF_4_3))}; 4.4.0: {len(asked(OF_4_4))};",
        f"3.9.1 with KRaft: {len(asked(OF_3_9))}; 2.8.2 with ZooKeeper: {len(asked(OF_2_8))} ",
        f"{len({case.tool for case in CASES})} tools with {len(CASES)} commands",
        f"{len(RUN)} tests that need a cluster",
    ):
        assert said in whole
