"""docs/clients.md names every client, in the tested version. The evidence names the tests that run with that client."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.clients.bench import JAVASCRIPT, Client
from tests.clients.building import SOURCES
from tests.clients.test_alone import COMMITS_WITHOUT_WAITING
from tests.clients.test_consumer_protocol import WITH_CONSUMER_PROTOCOL
from tests.clients.test_deaths import LASTING, STATIC
from tests.clients.test_new_partitions import FINDING_NEW_PARTITIONS
from tests.clients.test_rewinds import (
    PAUSING,
    SEEKING,
    WITH_FAILING_HANDLER,
    WITH_POLL_INTERVAL,
    WITHOUT_POLL_INTERVAL,
)
from tests.clients.test_starts import ASSIGNS_WITH_GROUP, WITHOUT_GROUP
from tests.evidence import function_of, statements
from tests.integration.jars import KAFKA_VERSION, OLD_VERSIONS

DOCUMENT = SOURCES.parents[1] / "docs" / "clients.md"
EVIDENCE = statements()
PARTIAL: dict[str, Collection[Client]] = {
    "test_cut_connections": LASTING,
    "test_restarted_mesh": LASTING,
    "test_static_member_comes_back": STATIC,
    "test_restarted_mesh_under_all_clients": LASTING,
    "test_commits_without_waiting": COMMITS_WITHOUT_WAITING,
    "test_pause": PAUSING,
    "test_seek_back": SEEKING,
    "test_failing_handler": WITH_FAILING_HANDLER,
    "test_away_for_too_long": WITH_POLL_INTERVAL,
    "test_hangs_for_too_long": WITHOUT_POLL_INTERVAL,
    "test_without_group": WITHOUT_GROUP,
    "test_consumer_protocol": WITH_CONSUMER_PROTOCOL,
    "test_static_member_of_the_consumer_protocol": WITH_CONSUMER_PROTOCOL,
    "test_a_subscription_by_regular_expression": WITH_CONSUMER_PROTOCOL,
    "test_a_member_that_loses_records_to_another_process_joins_again": WITH_CONSUMER_PROTOCOL,
    "test_assigned_with_group": ASSIGNS_WITH_GROUP,
    "test_assigned_with_group_when_the_mesh_is_killed": (Client.CONFLUENT, Client.JAVA),
    "test_kcat_until_the_end": (Client.KCAT,),
    "test_codecs_that_a_client_does_not_know": JAVASCRIPT,
    "test_new_partitions_are_found": FINDING_NEW_PARTITIONS,
}
"""Tests that do not run with every client."""
WITH_EVERY_CLIENT = {
    "test_alone",
    "test_two_share",
    "test_killed_member",
    "test_reset_of_a_group",
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def functions_in(folder: Path) -> Iterator[ast.FunctionDef]:
    """The test functions of a folder, from their source."""
    for path in folder.glob("test_*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield node


@pytest.mark.parametrize("heading", ["Tested programs", "What to set", "Brokers"])
def test_every_row_has_evidence(heading: str) -> None:
    statements = [f"{row[0]}: {row[1]}" if heading == "What to set" else row[0] for row in rows(heading)]
    if heading == "Brokers":
        assert statements.pop(0) == KAFKA_VERSION  # all other tests use it
    assert list(EVIDENCE[f"clients.md: {heading}"]) == statements


def test_every_test_that_takes_a_client_is_in_a_row() -> None:
    taking = {
        test.name for test in functions_in(SOURCES) if {"bench", "client"} <= {each.arg for each in test.args.args}
    }
    assert taking - {"test_moving_a_group_that_works"} <= WITH_EVERY_CLIENT | PARTIAL.keys()


@pytest.mark.parametrize("client", Client)
def test_the_evidence_of_a_client_is_the_tests_that_run_with_it(client: Client) -> None:
    expected = WITH_EVERY_CLIENT | {name for name, chosen in PARTIAL.items() if client in chosen}
    assert set(map(function_of, EVIDENCE["clients.md: Tested programs"][client.value])) == expected


def test_brokers_are_those_that_run() -> None:
    assert [row[0] for row in rows("Brokers")] == [KAFKA_VERSION, *OLD_VERSIONS]


def test_versions_are_those_that_run() -> None:
    documented = {row[0]: row[1] for row in rows("Tested programs")}
    for distribution in (Client.AIOKAFKA, Client.KAFKA_PYTHON, Client.CONFLUENT):
        assert documented[distribution.value] == version(distribution.value)
    packages = json.loads((SOURCES / "node" / "package.json").read_text())["dependencies"]
    assert {name: documented[name] for name in packages} == packages
    for client in (Client.FRANZ, Client.SARAMA, Client.SEGMENTIO):
        assert f"/{client.value} v{documented[client.value]}\n" in (SOURCES / "go" / "go.mod").read_text()
    assert documented[Client.JAVA.value] == KAFKA_VERSION
