"""`python -m mesh.demo.landing [--duration SECONDS]`: Spark lands a topic of two clusters beside an ordinary consumer.

Both are in the same group. An independent count checks the result, an audit compares it with the mesh's journal, and a
report shows it on one page. Needs kafka-mesh[spark] and Java 17.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
import yaml

from mesh.demo.processes.children import Child, ChildFailed, Children
from mesh.demo.processes.endpoint import MeshEndpoint
from mesh.demo.processes.journal import Counter, DemoJournal
from mesh.demo.processes.judge import JudgeVerdict, judge
from mesh.demo.processes.landed import LandedTable
from mesh.demo.processes.signals import StopRequest

TOPIC, JOURNAL, GROUP, CLUSTERS = "orders", "kafka-mesh.journal", "demo", ("eu", "us")
RATE = 400.0
"""Records that the demo feeds per second, to all clusters together."""
LINGER = 0.5
"""Seconds for which producers collect a batch. An embedded cluster answers a Fetch with one batch of a partition,
however small. Without linger Spark would read slowly; from a real broker it does not."""
_START_TIMEOUT = 60.0
_FIRST_BATCH = 240.0
_DRAIN_TIMEOUT = 120.0
_ACCOUNT_TIMEOUT = 240.0


@dataclass(frozen=True, slots=True)
class LandingOutcome:
    """The outcome of the landing demo. counted: the independent count. holds, audit_lines: the audit's verdict, and
    its lines with those of the report. page: the page of the report."""

    counted: JudgeVerdict
    holds: bool
    audit_lines: tuple[str, ...]
    page: Path

    @property
    def is_good(self) -> bool:
        """Returns whether nothing is missing and nothing came twice, and the audit confirms it."""
        return self.counted.exactly_once and self.holds

    def lines(self) -> Iterator[str]:
        yield from self.counted.lines()
        yield from self.audit_lines


class LandingDemo:
    """One run of the landing demo. All its files are in `folder`."""

    def __init__(self, folder: Path, children: Children, stop: StopRequest) -> None:
        self._folder = folder
        self._children = children
        self._stop = stop
        self._endpoint = MeshEndpoint.on_free_ports()
        self._fed, self._received = folder / "fed.journal", folder / "member.journal"
        self._counters = Counter(self._fed), Counter(self._received)
        self._outcome = folder / "outcome.json"
        self.report = folder / "report"
        self.table = LandedTable(folder / "table")

    def run(self, duration: float | None) -> LandingOutcome:
        _say("starting two clusters, the mesh and Spark; this takes some seconds")
        clusters = self._start_clusters()
        job = self._start_spark(clusters)
        feeder = self._start_feeder(clusters)
        self._await("Spark lands its first records", lambda: self.table.count() > 0, _FIRST_BATCH)
        _say("Spark lands; now a consumer joins the same group")
        consumer = self._start_consumer()
        self._await("the consumer gets its first records", lambda: self._counters[1].count() > 0, _START_TIMEOUT)
        begin = time.monotonic()
        while not self._stop.wait(2.0) and (duration is None or time.monotonic() < begin + duration):
            self._children.check()
            _say(self._now())
        self._children.stop(feeder)
        self._await("the rest", self._is_all_acknowledged, _DRAIN_TIMEOUT)
        _say(self._now(), "everything is acknowledged; Spark audits it and writes a report")
        self._children.stop(consumer)
        self._children.stop(job, timeout=_ACCOUNT_TIMEOUT)
        landed = self._folder / "landed.journal"
        with DemoJournal(landed) as journal:
            journal.write(self.table.entries())
        counted = judge(self._fed, [self._received, landed])
        result = json.loads(self._outcome.read_text())
        return LandingOutcome(counted, result["holds"], tuple(result["lines"]), Path(result["page"]))

    def _now(self) -> str:
        fed, received = (counter.count() for counter in self._counters)
        return f"{fed:>9,} fed {received:>9,} with the consumer {self.table.count():>9,} in the table"

    def _is_all_acknowledged(self) -> bool:
        fed, received = (counter.count() for counter in self._counters)
        return received + self.table.count() >= fed and self._endpoint.lag(GROUP, TOPIC) == 0

    def _start_clusters(self) -> Mapping[str, str]:
        """Starts the clusters with the mesh in front of them. Returns bootstrap servers by name."""
        files = {name: self._folder / f"{name}.address" for name in CLUSTERS}
        for name, file in files.items():
            self._children.start(f"cluster-{name}", "mesh.demo.processes.clusters", TOPIC, file, JOURNAL)
        self._await("the clusters", lambda: all(file.exists() for file in files.values()), _START_TIMEOUT)
        addresses = {name: file.read_text() for name, file in files.items()}
        configuration = self._folder / "kafka-mesh.yaml"
        configuration.write_text(self._endpoint.configuration(TOPIC, addresses, JOURNAL))
        self._children.start("kafka-mesh", "mesh.cli", "run", configuration)
        self._await("kafka-mesh", self._endpoint.is_ready, _START_TIMEOUT)
        return addresses

    def _start_spark(self, clusters: Mapping[str, str]) -> Child:
        """Starts Spark, which must come before the consumer. A member that is alone takes everything, and would work on
        it for minutes."""
        table = str(self.table.folder)
        landing = {
            "source": {
                "url": self._endpoint.admin_url,
                "virtual_cluster": "demo",
                "group": GROUP,
                "topics": [TOPIC],
            },
            "table": table,
            "checkpoint": str(self._folder / "checkpoint"),
            "trigger": 1,
        }
        audit = {
            "virtual_cluster": "demo",
            "group": GROUP,
            "topics": {name: [TOPIC] for name in clusters},
            "clusters": {name: {"bootstrap.servers": address} for name, address in clusters.items()},
            "journal": {"cluster": next(iter(clusters)), "topic": JOURNAL},
            "landed": {"table": table},
            "state": str(self._folder / "audit"),
            "patience": 2,
            "report": {"folder": str(self.report)},
        }
        files = self._folder / "landing.yaml", self._folder / "audit.yaml"
        for file, document in zip(files, (landing, audit), strict=True):
            file.write_text(yaml.safe_dump(document, sort_keys=False))
        return self._children.start("spark", "mesh.pipelines.demonstration", *files, self._outcome)

    def _start_consumer(self) -> Child:
        member = {"bootstrap-servers": self._endpoint.bootstrap_servers, "group": GROUP, "topic": TOPIC}
        member |= {"name": "consumer", "journal": str(self._received), "work": "0.01"}
        options = [part for name, value in member.items() for part in (f"--{name}", value)]
        return self._children.start("consumer", "mesh.demo.processes.member", *options)

    def _start_feeder(self, clusters: Mapping[str, str]) -> Child:
        pairs = [f"{name}={address}" for name, address in clusters.items()]
        return self._children.start(
            "feeder", "mesh.demo.processes.feeder", "--linger", LINGER, TOPIC, RATE, self._fed, *pairs
        )

    def _await(self, what: str, probe: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not probe():
            self._children.check()
            if time.monotonic() > deadline:
                raise ChildFailed(f"not within {timeout:g} s: {what}")
            time.sleep(0.2)


def main(
    duration: Annotated[float | None, typer.Option(min=1, help="End by itself after so many seconds.")] = None,
) -> None:
    """Exit code 0 when every record is in the table or was delivered to the consumer, exactly once in all, and the
    audit says so."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-mesh-landing-"))
    succeeded = False
    try:
        with StopRequest() as stop, Children(folder) as children:
            outcome = LandingDemo(folder, children, stop).run(duration)
        _say(*outcome.lines())
        succeeded = outcome.is_good
    except ChildFailed as failure:
        _say(str(failure))
    if succeeded:
        _leave_only(folder, outcome.page.parent)
    else:
        _say(f"configuration, logs and the table are in {folder}")
    raise typer.Exit(0 if succeeded else 1)


def _leave_only(folder: Path, kept: Path) -> None:
    """Deletes everything in `folder` except `kept`."""
    for each in folder.iterdir():
        if each.is_dir() and each != kept:
            shutil.rmtree(each)
        elif each != kept:
            each.unlink()


def _say(*lines: str) -> None:
    for line in lines:
        typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
