"""What CONTRIBUTING.md names is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parents[1]
TEXT: Final = (HERE / "CONTRIBUTING.md").read_text()
NAMED: Final = re.compile(r"`((?:mesh|tests|docs|config|benchmarks|\.ci)(?:/[\w.-]+)*|[\w-]+\.(?:toml|md))`")
LINKED: Final = re.compile(r"\]\(([\w./-]+)\)")


@pytest.mark.parametrize("path", sorted({*NAMED.findall(TEXT), *LINKED.findall(TEXT)} - {"mesh/apis/kNN_name.py"}))
def test_a_path_is_there(path: str) -> None:
    assert (HERE / path).exists()


@pytest.mark.parametrize("verb", sorted(set(re.findall(r"make ([a-z][a-z-]+)", TEXT)) - {"sure"}))
def test_a_verb_is_one_of_make(verb: str) -> None:
    assert re.search(rf"^{verb}:", (HERE / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", ["Policy", "Engine", "Received", "Answer"])
def test_a_class_is_where_it_is_said_to_be(name: str) -> None:
    places = {
        "Policy": "pool/common/settings",
        "Engine": "upstream/engine",
        "Received": "upstream/engine",
        "Answer": "pool/common/effects",
    }
    assert re.search(rf"^class {name}\b", (HERE / f"mesh/{places[name]}.py").read_text(), re.MULTILINE)
