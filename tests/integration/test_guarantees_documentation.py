"""Each promise of docs/guarantees.md names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

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
