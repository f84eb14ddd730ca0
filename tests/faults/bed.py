"""Two clusters behind a mesh, and a fault in `us`: the reports, and the time until records flow again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mesh.telemetry.upstream_health import WORDS
from mesh.upstream.problems import UpstreamProblem
from tests.integration.bench import Bench
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually

OF_GROUPS = {
    UpstreamProblem.NOT_AUTHORIZED,
    UpstreamProblem.ASSIGNOR,
    UpstreamProblem.FENCED,
    UpstreamProblem.COMMITS,
    UpstreamProblem.ENGINE_FAILED,
}
"""Events that concern one group on a cluster, and name it."""


class Bed:
    """A bench, and a stopwatch that prints its times."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.eu, self.us = bench.clusters

    @property
    def mesh(self) -> Mesh:
        return self.bench.mesh

    def members(self, count: int = 2) -> None:
        """Consumers that commit after each poll."""
        for number in range(count):
            # Clients see new partitions with their next Metadata request; each has its own interval.
            properties = {"topic.metadata.refresh.interval.ms": 1_000}
            self.bench.confluent(f"member-{number}", commit="sync", properties=properties).until_assigned()

    def arrived(self, cluster: str) -> int:
        """The number of different records of a cluster that the members have shown."""
        return len({each.id for each in self.bench.deliveries() if each.id.startswith(f"{cluster}-")})

    def flows(self, cluster: str, count: int = 300, timeout: float = 90.0) -> float:
        """Feeds a cluster; returns the seconds until all of these records have arrived."""
        feed = next(each for each in self.bench.clusters if each.name == cluster)
        before, began = self.arrived(cluster), time.monotonic()
        self.bench.feed(count, clusters=[feed])
        eventually(f"{count} records of {cluster}", lambda: self.arrived(cluster) >= before + count, timeout=timeout)
        return time.monotonic() - began

    def standing(self) -> dict[str, dict[str, Any]]:
        """The problems of `us` in /readyz, by kind."""
        degraded = self.mesh.readiness()["degraded"]
        return {each["problem"]: each for each in degraded if each["cluster"] == "us"}

    def until_told(self, problem: UpstreamProblem, timeout: float = 60.0) -> float:
        """Seconds until /readyz reports it in the words of the log, and the metric."""
        began = time.monotonic()
        eventually(f"/readyz tells of {problem.value}", lambda: problem.value in self.standing(), timeout=timeout)
        took = time.monotonic() - began
        described = self.standing()[problem.value]
        assert described["what"] == WORDS[problem].event
        assert described["reason"]
        self.assert_a_line(problem, described)
        labels = {"cluster": "us", "problem": problem.value}
        eventually("the metric", lambda: self.mesh.metric("kafka_mesh_upstream_problem_seconds", **labels) > 0)
        return took

    def assert_a_line(self, problem: UpstreamProblem, described: dict[str, Any]) -> None:
        """Asserts that the log names what /readyz names: the cluster, and the group or topic if it concerns only
        that."""
        about = {name: described[name] for name in ("cluster", "group", "topic") if name in described}
        entries = [each for each in self.mesh.log_entries() if each["event"] == WORDS[problem].event]
        assert any(about.items() <= each.items() for each in entries), (about, entries)
        assert all(each["reason"] and each["meanwhile"] for each in entries)
        if problem in OF_GROUPS:
            assert about["group"] == self.bench.group

    def until_over(self, timeout: float = 60.0) -> None:
        """Returns when /readyz reports nothing."""
        eventually("nothing is wrong any more", lambda: not self.standing(), timeout=timeout)
        assert self.mesh.metric("kafka_mesh_upstream_up", cluster="us") == 1

    def lines(self, problem: UpstreamProblem) -> list[str]:
        """The log entries of its beginning and its end, in order."""
        words = WORDS[problem]
        events = [entry["event"] for entry in self.mesh.log_entries() if entry.get("cluster") == "us"]
        return [event for event in events if event in (words.event, words.over)]

    def assert_told_once(self, problem: UpstreamProblem) -> None:
        """Asserts one line when the problem began, and one when it was over."""
        words = WORDS[problem]
        eventually("the end is told", lambda: self.lines(problem)[-1:] == [words.over])
        assert self.lines(problem) == [words.event, words.over]

    def assert_nothing_lost(self, may_repeat: bool = False) -> None:
        self.bench.account_when_all_arrived(may_repeat=may_repeat).assert_nothing_lost_or_altered()
        for member in self.bench.members:
            member.assert_running()


class Stopwatch:
    """Times of a run in seconds, for the table of docs/faults.md: `pytest -s` shows them."""

    def __init__(self, fault: str) -> None:
        self._fault = fault

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.note(what, time.monotonic() - began)

    def note(self, what: str, seconds: float) -> None:
        print(f"MEASURED | {self._fault} | {what} | {seconds:.1f} s", flush=True)
