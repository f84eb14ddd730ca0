"""Hypothesis profiles, real brokers, and the switch under which a skipped test fails the run."""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from tests.budget import budget_of
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import SHORT_SESSIONS, KafkaCluster
from tests.integration.processes import ENVIRONMENT
from tests.integration.shared_cluster import HandedOutCluster, SharedCluster
from tests.shards import shards_of
from tests.suites import GATE, SUITES, marks_named_in, may_have, place_in_gate

_STARTUP = str(Path(__file__).with_name("startup"))
if _STARTUP not in os.environ.get("PYTHONPATH", ""):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_STARTUP, os.environ.get("PYTHONPATH"))))
ENVIRONMENT.update(os.environ)

settings.register_profile("fast", derandomize=True, max_examples=50, deadline=None)
# For thousands of state machines: make machines. It prints their seeds, and shrinks nothing.
settings.register_profile("random", max_examples=150, deadline=None, database=None, phases=(Phase.generate,))
settings.register_profile("deep", max_examples=2_000, deadline=None)
# For traced lines (`make coverage`), which take several times as long: a few examples run nearly as many lines.
settings.register_profile(
    "traced", derandomize=True, max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

_BROKER_FIXTURES = frozenset({"kafka", "kafka_pair", "old_pair"})
_LONGEST = ("tests/chaos/", "tests/router/test_group_retention.py", "tests/spark/")
_NO_SKIP = "KAFKA_MESH_NO_SKIP"
_skipped = pytest.StashKey[list[str]]()
_shared = pytest.StashKey[list[HandedOutCluster]]()
_HANDED_OUT = "clusters"
_clusters: list[KafkaCluster] = []
"""The clusters that this process has started for all of its tests."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_skipped] = []
    config.pluginmanager.register(_Skips(config.stash[_skipped]))
    config.pluginmanager.register(budget_of(config))
    if _shares_clusters(config):
        folder = Path(tempfile.mkdtemp(prefix="kafka-mesh-shared-"))
        config.stash[_shared] = [HandedOutCluster(name, kafka_jars(), folder / name) for name in ("eu", "us")]


def _shares_clusters(config: pytest.Config) -> bool:
    """True in the process that leads the others in a run of all tests of `make test`: none of them kills a broker."""
    is_leader = bool(config.option.numprocesses) and not hasattr(config, "workerinput")
    is_whole = config.args == config.getini("testpaths") and not config.option.collectonly
    return is_leader and is_whole and config.option.markexpr == GATE and not missing_programs()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hands the shared clusters out to a process of xdist."""
    node.workerinput[_HANDED_OUT] = [each.handed_out() for each in node.config.stash.get(_shared, [])]


def pytest_unconfigure(config: pytest.Config) -> None:
    for cluster in config.stash.get(_shared, []):
        cluster.kill()
        shutil.rmtree(cluster.folder.parent, ignore_errors=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out a file without a test for this run (tests/suites.py): reading files takes most of the time of a short
    run."""
    expression = config.option.markexpr
    asked_for = any(Path(arg.partition("::")[0]).resolve() == collection_path for arg in config.args)
    if not expression or asked_for or not collection_path.match("test_*.py"):
        return None
    return None if may_have(expression, marks_named_in(collection_path)) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the end, so the garbage collector never looks at them: each of its full passes, and
    each one that a test asks for, would look at some three million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests with a real broker `kafka`, and puts them last: quick tests fail first. Those that take minutes are
    the first of them, so that no worker is left with one at the end. Several processes of `make test` have an order of
    their own (tests/suites.py)."""
    for item in items:
        if item.get_closest_marker("deep") is not None:
            item.add_marker(pytest.mark.long)
        unnamed = {mark.name for mark in item.iter_markers()} & SUITES - marks_named_in(item.path)
        if unnamed:
            raise pytest.UsageError(f"{item.path}: name {unnamed.pop()}, or in tests/suites.py the import it comes by")
        if _BROKER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)
        if _is_left_out({mark.name for mark in item.iter_markers()}) and len(shards_of(item.path)) != 1:
            raise pytest.UsageError(
                f"{item.path}: `make test` leaves out {item.name}: name one shard for it in tests/shards.py"
            )
    if config.option.markexpr == GATE and hasattr(config, "workerinput"):
        items.sort(key=lambda item: place_in_gate(item.nodeid.partition("::")[0]))
        return
    items.sort(key=lambda item: (item.get_closest_marker("kafka") is not None, not item.nodeid.startswith(_LONGEST)))


def _is_left_out(marks: Collection[str]) -> bool:
    """True for marks of a test that belongs to `make test-long`."""
    if not {"outside", "deep"}.isdisjoint(marks):
        return False
    return "long" in marks or "alone" in marks or ("kafka" in marks and "smoke" not in marks)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """The mark `xdist_group` of a file holds with pytest 9.2, too: xdist 3.8 cannot change the ids of its tests."""
    return _FilesInGroups(config, log) if config.getvalue("dist") == "loadgroup" else None


class _FilesInGroups(LoadGroupScheduling):
    """Sends all tests of a group to one process: those of the files that name it, and those that share a session of
    Spark, which is a Java process."""

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(nodeid.partition("::")[0]) or nodeid


@cache
def _group_of(file: str) -> str | None:
    text = (Path(__file__).parents[1] / file).read_text()
    found = re.search(r'xdist_group\("([^"]+)"\)', text)
    if found is not None:
        return found[1]
    return "spark" if re.search(r"\bspark: ", text) else None


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """kafka-mesh runs on asyncio, even if trio is installed for another package."""
    return "asyncio"


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A running Apache Kafka, the one of all tests of this process: give topics and groups unique names."""
    yield from _cluster("eu", request, tmp_path_factory)


@pytest.fixture(scope="session")
def _second_kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    yield from _cluster("us", request, tmp_path_factory)


@pytest.fixture(scope="session")
def kafka_pair(kafka: KafkaCluster, _second_kafka: KafkaCluster) -> tuple[KafkaCluster, KafkaCluster]:
    """Two unrelated clusters, eu (which is `kafka`) and us."""
    return kafka, _second_kafka


def _cluster(name: str, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    for handed_out in getattr(request.config, "workerinput", {}).get(_HANDED_OUT, []):
        if handed_out["name"] == name:
            yield SharedCluster(handed_out)
            return
    cluster = KafkaCluster(name, kafka_jars(), folders.mktemp(f"kafka-{name}"), SHORT_SESSIONS)
    _clusters.append(cluster)
    yield cluster
    _clusters.remove(cluster)
    cluster.kill()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """If a test fails while a cluster is down or hangs, the tests after it still find the clusters running."""
    for cluster in _clusters:
        cluster.revive()


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
    """Learns of skipped tests even when the tests run in other processes (pytest-xdist)."""

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
