"""librdkafka's own test-runner, where its sources are built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outside.building import librdkafka_sources
from tests.outside.conftest import Bed
from tests.outside.librdkafka import SUITE
from tests.outside.running import run

pytestmark = [pytest.mark.long, pytest.mark.outside]
BROKER_VERSION = "4.0.0"
"""What it is told; it has no tests of its own for later ones but those of share groups."""


def environment(sources: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": f"{sources / 'src'}:{sources / 'src-cpp'}"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SUITE.parameters())
def test_librdkafka(bed: Bed, name: str) -> None:
    sources = librdkafka_sources()
    configuration = bed.folder / "test.conf"
    configuration.write_text(f"bootstrap.servers={bed.address}\n")
    told = {"TESTS": name, "RDKAFKA_TEST_CONF": str(configuration), "TEST_KAFKA_VERSION": BROKER_VERSION}
    command: list[str | Path] = [sources / "tests" / "test-runner", "-p1", "-L"]
    said = run(command, {**environment(sources), **told}, bed.folder / f"{name}.log", timeout=240)
    assert f"Test {name} PASSED" in said


def test_librdkafka_has_the_tests_that_are_named() -> None:
    sources = librdkafka_sources()
    files = {path.stem for path in (sources / "tests").glob("0*.c*")}
    numbers = {name.partition("_")[0] for name in (*SUITE.run, *SUITE.not_applicable, *SUITE.defects)}
    assert numbers <= {name.partition("-")[0] for name in files}
