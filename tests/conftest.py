"""Hypothesis profiles, real brokers, and the switch under which a skipped test fails the run."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster

settings.register_profile("fast", derandomize=True, max_examples=50, deadline=None)
settings.register_profile("deep", max_examples=2_000, deadline=None)
# For lines that are traced (`make coverage`), each of which takes a multiple: a few examples run nearly as many lines.
settings.register_profile(
    "traced", derandomize=True, max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

_BROKER_FIXTURES = frozenset({"kafka", "kafka_pair", "old_pair"})
_NO_SKIP = "KAFKA_MESH_NO_SKIP"
_skipped = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_skipped] = []
    config.pluginmanager.register(_Skips(config.stash[_skipped]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses a real broker is marked `kafka`, and comes last: the quick tests have failed by then. Of those the
    chaos is first: it takes minutes, while the other workers do the rest."""
    for item in items:
        if _BROKER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)
    items.sort(key=lambda item: (item.get_closest_marker("kafka") is not None, "tests/chaos/" not in item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """The mark `xdist_group` of a file holds with pytest 9.2, too: xdist 3.8 cannot change the ids of its tests."""
    return _FilesInGroups(config, log) if config.getvalue("dist") == "loadgroup" else None


class _FilesInGroups(LoadGroupScheduling):
    """Sends all tests of a group to one process: of those files that name it."""

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(nodeid.partition("::")[0]) or nodeid


@cache
def _group_of(file: str) -> str | None:
    found = re.search(r'xdist_group\("([^"]+)"\)', (Path(__file__).parents[1] / file).read_text())
    return found[1] if found is not None else None


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """kafka-mesh runs on asyncio; that trio is installed, for another package, changes nothing."""
    return "asyncio"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A running Apache Kafka, the one of the whole run: give topics and groups names of your own."""
    yield from _cluster("eu", tmp_path_factory)


@pytest.fixture(scope="session")
def _second_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    yield from _cluster("us", tmp_path_factory)


@pytest.fixture(scope="session")
def kafka_pair(kafka: KafkaCluster, _second_kafka: KafkaCluster) -> tuple[KafkaCluster, KafkaCluster]:
    """Two clusters that know nothing of each other, eu (which is `kafka`) and us."""
    return kafka, _second_kafka


def _cluster(name: str, folders: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    cluster = KafkaCluster(name, kafka_jars(), folders.mktemp(f"kafka-{name}"))
    yield cluster
    cluster.kill()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.get_closest_marker("kafka") and isinstance(report.longrepr, tuple):
        # One place for all, so that pytest folds them into one line of its summary.
        report.longrepr = ("tests/conftest.py", _cluster.__code__.co_firstlineno, report.longrepr[2])
    return report


class _Skips:
    """Hears of them also when the tests run in other processes (pytest-xdist)."""

    def __init__(self, skipped: list[str]) -> None:
        self._skipped = skipped

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get(_NO_SKIP) and session.config.stash[_skipped]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if os.environ.get(_NO_SKIP) and config.stash[_skipped]:
        terminalreporter.section(f"skipped, which {_NO_SKIP} forbids", red=True)
        for node in config.stash[_skipped]:
            terminalreporter.write_line(node)
