"""Each case in its short form, on a real broker: the tests check that it measures, not the results. `make test` has the
cases that need no broker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.__main__ import SHORT, main
from benchmarks.bed import Bed
from benchmarks.cases import CASES, NAMES, USUAL
from benchmarks.options import Options
from benchmarks.pictures import draw
from benchmarks.report import Results, show
from tests.integration.jars import missing_programs

EVERY = "KAFKA_MESH_EVERY_CASE"
ENOUGH = (*("confluent-x4-s100-60", "relay-java-produce-1000-1", "union-kcat-s1k"),)
"""A pool, a relay and a union."""
DEEP = (
    *("kcat-x2-s1k-60", "java-s100", "aiokafka-s1k", "engines-s100", "scale-out-s100", "relay-latency"),
    *("interceptors-s1k", "late-joiner", "redelivery", "kcat-transactions", "share-s100", "parked-200"),
    *("kcat-s100", "kcat-tiny", "kcat-small", "kcat-compacted", "java-s1k", "java-lz4-1k", "java-zstd-100"),
    *("confluent-s100", "journal-s100", "relay-kcat-s1k", "relay-confluent-produce-100-all", "relay-idle"),
    *("union-confluent-produce-1000-all", "steady-x4", "latency-100", "commits", "start"),
    *("one-node-confluent-s100k", "one-node-java-produce-1000-all", "one-node-held"),
)
"""Each client, kind, topic, codec and number of brokers once. Others are the same code with other names."""
OPTIONS = Options(rounds=1, engines=("raw",), scale=SHORT, short=True, peers=False, say=print)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    bed = Bed(tmp_path_factory.mktemp("bench"), SHORT)
    yield bed
    bed.close()


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize(
    "name",
    CASES if os.environ.get(EVERY) else [*ENOUGH, *(pytest.param(each, marks=pytest.mark.deep) for each in DEEP)],
)
def test_a_case_measures_every_target(bed: Bed, name: str, tmp_path: Path) -> None:
    if "kcat" in name.split("-") and shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    found = CASES[name](bed, OPTIONS)
    for series in found:
        assert series.failures == []
        assert any(target.startswith("mesh") or target == "two processes" for target in series.targets)
        values = [value for target in series.targets for value in series.values(target)]
        assert min(values) > 0 or "idle" in series.case  # the kernel's clock may show nothing in two seconds
        show(Console(), series)
    results = Results()
    results.add({"date": "now"}, found)
    results.write(tmp_path / "results.json")


def test_the_usual_cases_are_cases() -> None:
    assert set(USUAL) <= set(NAMES)


def test_each_word_of_a_case_is_tried() -> None:
    def words(names: Iterable[str]) -> set[str]:
        return {word for name in names for word in name.split("-")} - {
            "100",
            "1000",
            "5000",
            "100000",
            "60",
            "lz4",
            "zstd",
        }

    assert words([*ENOUGH, *DEEP]) == words(CASES)


def test_the_command_measures_writes_and_draws(tmp_path: Path) -> None:
    arguments = ["--short", "--case", "growth-pools", "--case", "growth-backlog", "--out", str(tmp_path)]
    done = CliRunner().invoke(_app(), arguments)
    assert done.exit_code == 0, done.output
    assert {file.name for file in tmp_path.iterdir()} == {"results.json", "growth.png"}


def test_pictures_are_drawn_of_every_kind_of_result(tmp_path: Path) -> None:
    from tests.benchmarks.test_report import MACHINE, _series

    results = Results()
    results.add(MACHINE, [_series("java-s100")])
    assert [file.name for file in draw(tmp_path, results)] == ["ratios.png"]


def test_a_case_that_does_not_exist_is_refused_by_name() -> None:
    done = CliRunner().invoke(_app(), ["--case", "java-s100x"])
    assert done.exit_code == 2
    assert "java-s100x" in done.output


def _app() -> typer.Typer:
    app = typer.Typer()
    app.command()(main)
    return app
