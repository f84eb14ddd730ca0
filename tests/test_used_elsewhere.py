"""The list of names that are kept though nothing uses them holds none that has gone."""

from __future__ import annotations

import re
from pathlib import Path

from tests.used_elsewhere import NAMES

TOP = Path(__file__).parents[1]
FOLDERS = ("mesh", "pyspark_kafka_mesh", "benchmarks", "tests")


def test_every_name_is_still_there() -> None:
    here = Path(__file__).with_name("used_elsewhere.py")
    files = (file for folder in FOLDERS for file in (TOP / folder).rglob("*.py") if file != here)
    words = {word for file in files for word in re.findall(r"\w+", file.read_text())}
    assert set(NAMES) <= words | {"NAMES"}
    assert len(set(NAMES)) == len(NAMES)
