"""docs/clients.md names every client, in the version that is tested, and tests that exist and run with that client."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.clients.building import SOURCES
from tests.clients.test_deaths import LASTING, STATIC
from tests.clients.test_rewinds import SCRIPTED, WITH_FAILING_HANDLER, WITH_POLL_INTERVAL
from tests.clients.test_starts import WITHOUT_GROUP
from tests.integration.jars import KAFKA_VERSION

DOCUMENT = SOURCES.parents[1] / "docs" / "clients.md"
PARTIAL: dict[str, Collection[Client]] = {
    "test_restarted_mesh": LASTING,
    "test_static_member_comes_back": STATIC,
    "test_pause": SCRIPTED,
    "test_seek_back": SCRIPTED,
    "test_failing_handler": WITH_FAILING_HANDLER,
    "test_away_for_too_long": WITH_POLL_INTERVAL,
    "test_without_group": WITHOUT_GROUP,
}
"""Tests that do not run with every client; all the others that take one do."""
WITH_EVERY_CLIENT = {"test_alone", "test_two_share", "test_killed_member", "test_reset_of_a_group"}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def named_in(cell: str) -> set[str]:
    return set(re.findall(r"`(test_\w+)`", cell))


def existing() -> set[str]:
    """The tests of this folder, by their text."""
    return {
        node.name
        for path in Path(SOURCES).glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("heading", ["What was tried", "What to set"])
def test_every_row_names_tests_that_exist(heading: str) -> None:
    assert rows(heading)
    for row in rows(heading):
        assert named_in(row[-1]), row
        assert named_in(row[-1]) <= existing(), row


@pytest.mark.parametrize("client", Client)
def test_the_row_of_a_client_names_the_tests_that_run_with_it(client: Client) -> None:
    (row,) = [row for row in rows("What was tried") if row[0] == client.value]
    expected = WITH_EVERY_CLIENT | {name for name, chosen in PARTIAL.items() if client in chosen}
    assert named_in(row[-1]) == expected


def test_versions_are_those_that_run() -> None:
    documented = {row[0]: row[1] for row in rows("What was tried")}
    for distribution in (Client.AIOKAFKA, Client.KAFKA_PYTHON, Client.CONFLUENT):
        assert documented[distribution.value] == version(distribution.value)
    packages = json.loads((SOURCES / "node" / "package.json").read_text())["dependencies"]
    assert {name: documented[name] for name in packages} == packages
    assert f"franz-go v{documented[Client.FRANZ.value]}\n" in (SOURCES / "franz" / "go.mod").read_text()
    assert documented[Client.JAVA.value] == KAFKA_VERSION
