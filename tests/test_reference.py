"""The generated pages are those that the code gives."""

from __future__ import annotations

import json
import re
import typing
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from mesh.wire.errors import Reason
from tests.documents import blocks
from tests.reference import GENERATED, ROOT, errors

TARGETS = [name for name in errors() if name != "closed"]


@pytest.mark.parametrize("path", GENERATED)
def test_a_generated_page_is_up_to_date(path: str) -> None:
    """Run `make reference` after a change of the code."""
    assert (ROOT / path).read_text() == GENERATED[path]()


def configurations() -> list[Path]:
    files = sorted((ROOT / "config").rglob("*.yaml"))
    return [file for file in files if "helm" not in file.parts and "\nvirtual_clusters:" in file.read_text()]


@cache
def schema() -> jsonschema.Draft202012Validator:
    loaded = json.loads((ROOT / "config/schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(loaded)
    return jsonschema.Draft202012Validator(loaded)


def tree_of(text: str) -> Any:
    """A YAML document as editors read it: `on` is a text in YAML 1.2."""
    return yaml.safe_load(re.sub(r"\bon: ", '"on": ', text))


@pytest.mark.parametrize("file", configurations(), ids=lambda file: file.name)
def test_the_schema_accepts_the_shipped_configurations(file: Path) -> None:
    assert [error.message for error in schema().iter_errors(tree_of(file.read_text()))] == []


def test_the_schema_accepts_the_configuration_of_getting_started() -> None:
    (shown,) = (block.text for block in blocks("docs/getting-started.md") if block.language == "yaml")
    assert list(schema().iter_errors(tree_of(shown))) == []


@pytest.mark.parametrize(
    "change",
    [
        {"buget": "1MiB"},
        {"workers": "many"},
        {"clusters": [{"name": "eu"}]},
        {"admin": {"listen": 9644}},
    ],
)
def test_the_schema_finds_mistakes(change: dict[str, Any]) -> None:
    tree = tree_of((ROOT / "config/orders.yaml").read_text())
    assert list(schema().iter_errors(tree | change)) != []


def test_a_variable_may_stand_for_any_scalar() -> None:
    tree = tree_of((ROOT / "config/orders.yaml").read_text())
    assert list(schema().iter_errors(tree | {"workers": "${WORKERS:-2}", "drain_grace": "${GRACE}"})) == []


@pytest.mark.parametrize("target", TARGETS)
def test_errors_are_those_that_the_code_names(target: str) -> None:
    """Add a new code to tests/errors.yaml."""
    described = errors()[target]
    texts = (file.read_text() for name in described["packages"] for file in (ROOT / "mesh" / name).rglob("*.py"))
    named = {code for text in texts for code in re.findall(r"\bErrorCode\.([A-Z_]+)", text)} - {"NONE"}
    assert set(described["codes"]) | set(described["passed"]) == named
    assert not set(described["codes"]) & set(described["passed"])


def test_reasons_of_closed_connections_are_those_of_the_code() -> None:
    assert errors()["closed"].keys() == set(typing.get_args(Reason))
