"""librdkafka's own test-runner, where its sources are built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outside.building import librdkafka_sources
from tests.outside.conftest import Bed, made_bed
from tests.outside.librdkafka import SUITE
from tests.outside.running import run

pytestmark = [pytest.mark.long, pytest.mark.outside]
BROKER_VERSION = "4.2.0"
"""The broker version that it is given: the first one with share groups."""
SLOW = {
    "0170_share_consumer_subscription": 500,
    "0173_share_consumer_commit_async": 500,
    "0174_share_consumer_concurrency": 600,
}
"""Seconds for a test, if not `SECONDS`."""
SECONDS = 240
PATIENCE = 3
"""The factor by which its tests wait longer, for a busy machine."""
SHARE = {"min_record_lock_duration": "1s"}
"""Its tests set short locks. They set the start of their groups, or expect Kafka's default, the latest."""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with made_bed(tmp_path_factory.mktemp("outside"), SHARE) as bed:
        yield bed


def environment(sources: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": f"{sources / 'src'}:{sources / 'src-cpp'}"}


@pytest.mark.timeout(660)
@pytest.mark.parametrize("name", SUITE.parameters())
def test_librdkafka(bed: Bed, name: str) -> None:
    sources = librdkafka_sources()
    configuration = bed.folder / "test.conf"
    configuration.write_text(f"bootstrap.servers={bed.address}\ntest.timeout.multiplier={PATIENCE}\n")
    told = {"TESTS": name, "RDKAFKA_TEST_CONF": str(configuration), "TEST_KAFKA_VERSION": BROKER_VERSION}
    command: list[str | Path] = [sources / "tests" / "test-runner", "-p1", "-L"]
    said = run(command, {**environment(sources), **told}, bed.folder / f"{name}.log", timeout=SLOW.get(name, SECONDS))
    assert f"Test {name} PASSED" in said


def test_librdkafka_has_the_tests_that_are_named() -> None:
    sources = librdkafka_sources()
    files = {path.stem for path in (sources / "tests").glob("0*.c*")}
    numbers = {name.partition("_")[0] for name in (*SUITE.run, *SUITE.not_applicable, *SUITE.defects)}
    assert numbers <= {name.partition("-")[0] for name in files}
