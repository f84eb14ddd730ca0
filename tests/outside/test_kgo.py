"""kgo's own tests (franz-go), as they come in its Go module."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.outside.building import kgo_tests
from tests.outside.conftest import Bed
from tests.outside.kgo import SUITE
from tests.outside.running import run

pytestmark = [pytest.mark.long, pytest.mark.outside]
FIRST = "TestIssue325"
"""The test that runs first learns the protocols; some tests do not wait for that."""
RECORDS = 20_000
"""Records through each of the three topics of a chain of groups."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SUITE.parameters())
def test_kgo(bed: Bed, name: str) -> None:
    environment = {
        "KGO_SEEDS": bed.address,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": str(RECORDS),
        "KGO_TEST_MAX_TOPIC_PARTS": "4",
    }
    chosen = ["-test.run", f"^({FIRST}|{name})$", "-test.parallel", "1"]
    command: list[str | Path] = [kgo_tests(), *chosen, "-test.v", "-test.timeout", "240s"]
    said = run(command, environment, bed.folder / f"{name}.log", timeout=280)
    assert f"\n--- PASS: {name} " in f"\n{said}"
    assert "--- SKIP" not in said


def test_kgo_has_the_tests_that_are_named() -> None:
    listed = subprocess.run([kgo_tests(), "-test.list", "."], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^Test\w+$", listed, re.MULTILINE))
    assert known >= {*SUITE.run, *SUITE.not_applicable, *SUITE.defects}
