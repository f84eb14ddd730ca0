"""The list of names that are kept without a use contains no removed name, and none that is used by now."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from vulture import Vulture

from tests.used_elsewhere import NAMES

TOP = Path(__file__).parents[1]
FOLDERS = ("mesh", "pyspark_kafka_mesh", "benchmarks", "tests")


def test_every_name_is_still_there() -> None:
    here = Path(__file__).with_name("used_elsewhere.py")
    files = (file for folder in FOLDERS for file in (TOP / folder).rglob("*.py") if file != here)
    words = {word for file in files for word in re.findall(r"\w+", file.read_text())}
    assert set(NAMES) <= words | {"NAMES"}
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.long
@pytest.mark.deep
def test_nothing_here_uses_a_name_of_the_list() -> None:
    """Neither the code nor its tests, or the code alone, use it."""
    found = _unused(FOLDERS) | _unused(FOLDERS[:-1])
    assert set(NAMES) - found <= {"NAMES"}


def _unused(folders: tuple[str, ...]) -> set[str]:
    options = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["vulture"]
    vulture = Vulture(ignore_names=options["ignore_names"], ignore_decorators=options["ignore_decorators"])
    vulture.scavenge([str(TOP / folder) for folder in folders], exclude=["used_elsewhere.py"])
    return {each.name for each in vulture.get_unused_code()}
