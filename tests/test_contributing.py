"""The files that CONTRIBUTING.md names exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parents[1]
TEXT: Final = (HERE / "CONTRIBUTING.md").read_text()
NAMED: Final = re.compile(r"`((?:mesh|tests|docs|config|benchmarks|\.ci)(?:/[\w.-]+)*|[\w-]+\.(?:toml|md))`")
LINKED: Final = re.compile(r"\]\(([\w./-]+)\)")


def test_the_paths_are_there() -> None:
    named = sorted({*NAMED.findall(TEXT), *LINKED.findall(TEXT)} - {"mesh/pool/apis/kNN_name.py"})
    assert len(named) > 100
    assert [path for path in named if not (HERE / path).exists()] == []


def test_the_verbs_are_those_of_make() -> None:
    verbs = set(re.findall(r"make ([a-z][a-z-]+)", TEXT)) - {"sure"}
    assert verbs
    assert verbs <= set(re.findall(r"^([a-z-]+):", (HERE / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", ["Policy", "Engine", "Received", "Answer"])
def test_a_class_is_where_it_is_said_to_be(name: str) -> None:
    places = {
        "Policy": "pool/common/settings",
        "Engine": "upstream/engine",
        "Received": "upstream/engine",
        "Answer": "apis/answers",
    }
    assert re.search(rf"^class {name}\b", (HERE / f"mesh/{places[name]}.py").read_text(), re.MULTILINE)


def test_the_table_of_packages_is_in_the_order_of_the_contract() -> None:
    contracts = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["mesh"])
    level = {package: place for place, layer in enumerate(layers) for package in layer.split(" | ")}
    rows = re.findall(r"^\| `mesh/(\w+)(?:\.py)?` \|", TEXT, re.MULTILINE)
    assert sorted(rows) == sorted(level)
    assert [level[row] for row in rows] == sorted(level.values())
