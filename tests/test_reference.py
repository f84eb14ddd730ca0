"""The generated pages are those that the code gives."""

from __future__ import annotations

import re
import typing

import pytest

from mesh.wire.errors import Reason
from tests.reference import GENERATED, ROOT, errors

TARGETS = [name for name in errors() if name != "closed"]


@pytest.mark.parametrize("path", GENERATED)
def test_a_generated_page_is_up_to_date(path: str) -> None:
    """Run `make reference` after a change of the code."""
    assert (ROOT / path).read_text() == GENERATED[path]()


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
