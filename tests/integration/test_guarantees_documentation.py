"""Each promise of docs/guarantees.md names a test of `make test`, or the shard of its tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Set
from pathlib import Path

import pytest

from tests.shards import SHARDS, shards_of
from tests.suites import GATE

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "guarantees.md"


def named(text: str) -> list[str]:
    return re.findall(r"`(test_\w+)`", text)


def existing() -> set[str]:
    """Test functions, and methods of state machines that are tests as a whole."""
    return {
        node.name
        for file in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def rows() -> list[str]:
    """The lines of its tables that promise something."""
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith(("| what | tests", "| commits |", "| when |"))]


def test_every_promise_names_its_tests() -> None:
    assert len(rows()) > 20
    assert not [row for row in rows() if not named(row.rpartition(" | ")[2])]


def test_the_tests_exist() -> None:
    assert not set(named(DOCUMENT.read_text())) - existing()


def files_of(test: str) -> list[Path]:
    """The files that have a test of this name."""
    return [file for file in (ROOT / "tests").rglob("test_*.py") if f"def {test}(" in file.read_text()]


def without_gate(promises: Iterable[str], collected: Set[str]) -> list[str]:
    """The promises without a test among the collected ones that name no shard either."""
    return [row for row in promises if collected.isdisjoint(named(row)) and not re.search(r"shard `[a-z-]+`: ", row)]


def test_each_promise_has_a_test_of_this_run_or_names_a_shard(request: pytest.FixtureRequest) -> None:
    config = request.config
    if config.option.markexpr != GATE or config.args != config.getini("testpaths"):
        pytest.skip("needs the whole of make test")
    assert without_gate(rows(), {item.name.partition("[")[0] for item in request.session.items}) == []


def test_a_promise_without_either_is_found() -> None:
    kept, long = "| kept | `test_a` |", "| kept when killed | `test_b`; shard `pool`: kills |"
    broken = "| broken | `test_b` |"
    assert without_gate([kept, long, broken], {"test_a"}) == [broken]


def test_a_named_shard_has_a_test_of_its_promise() -> None:
    for row in rows():
        for shard in re.findall(r"shard `([a-z-]+)`", row):
            assert shard in SHARDS
            assert any(shard in shards_of(file) for test in named(row) for file in files_of(test)), row
