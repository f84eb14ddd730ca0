"""`python -m mesh.demo.landing [--duration SECONDS]`: Spark lands a topic of two clusters beside an ordinary consumer.

Both are in the same group; what came out is counted independently. Needs kafka-mesh[spark] and Java 17.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import pyarrow.parquet as parquet
import typer
import yaml

from mesh.demo.children import Child, ChildFailed, Children
from mesh.demo.endpoint import MeshEndpoint
from mesh.demo.journal import Counter, Entry, Journal, Record, read
from mesh.demo.judge import Verdict, judge
from mesh.demo.signals import StopRequest

TOPIC, GROUP, CLUSTERS = "orders", "demo", ("eu", "us")
RATE = 400.0
"""Records fed per second, to all clusters together."""
_START_TIMEOUT = 60.0
_FIRST_BATCH = 240.0
_DRAIN_TIMEOUT = 120.0


class LandingDemo:
    """One run: all its files are in `folder`."""

    def __init__(self, folder: Path, children: Children, stop: StopRequest) -> None:
        self._folder = folder
        self._children = children
        self._stop = stop
        self._endpoint = MeshEndpoint.on_free_ports()
        self._fed, self._received = folder / "fed.journal", folder / "member.journal"
        self.table = folder / "table"

    def run(self, duration: float | None) -> Verdict:
        _say("starting two clusters, the mesh, a consumer, and Spark; this takes some seconds")
        feeder = self._start()
        counters = Counter(self._fed), Counter(self._received)
        self._await("Spark lands its first records", lambda: any(True for _ in self.landed()), _FIRST_BATCH)
        begin = time.monotonic()
        while not self._stop.wait(2.0) and (duration is None or time.monotonic() < begin + duration):
            self._children.check()
            fed, received = (counter.count() for counter in counters)
            _say(f"{fed:>9,} fed {received:>9,} with the consumer {len(list(self.landed())):>9,} in the table")
        self._children.stop(feeder)
        fed = counters[0].count()
        self._await("the rest", lambda: counters[1].count() + len(list(self.landed())) >= fed, _DRAIN_TIMEOUT)
        landed = self._folder / "landed.journal"
        with Journal(landed) as journal:
            journal.write(self.landed())
        _say(f"{len(list(read(landed))):,} in the table, {counters[1].count():,} with the consumer")
        return judge(self._fed, [self._received, landed])

    def _start(self) -> Child:
        files = {name: self._folder / f"{name}.address" for name in CLUSTERS}
        for name, file in files.items():
            self._children.start(f"cluster-{name}", "mesh.demo.clusters", TOPIC, file)
        self._await("the clusters", lambda: all(file.exists() for file in files.values()), _START_TIMEOUT)
        addresses = {name: file.read_text() for name, file in files.items()}
        configuration = self._folder / "kafka-mesh.yaml"
        configuration.write_text(self._endpoint.configuration(TOPIC, addresses))
        self._children.start("kafka-mesh", "mesh.cli", "run", configuration)
        self._await("kafka-mesh", self._endpoint.is_ready, _START_TIMEOUT)
        landing = self._folder / "landing.yaml"
        source = {"url": self._endpoint.admin_url, "virtual_cluster": "demo", "group": GROUP, "topics": [TOPIC]}
        job = {"source": source, "table": str(self.table), "checkpoint": str(self._folder / "checkpoint"), "trigger": 1}
        landing.write_text(yaml.safe_dump(job))
        self._children.start("landing", "mesh.pipelines.landing", landing)
        member = {"bootstrap-servers": self._endpoint.bootstrap_servers, "group": GROUP, "topic": TOPIC}
        member |= {"name": "consumer", "journal": str(self._received), "work": "0.01"}
        options = [part for name, value in member.items() for part in (f"--{name}", value)]
        self._children.start("consumer", "mesh.demo.member", *options)
        pairs = [f"{name}={address}" for name, address in addresses.items()]
        return self._children.start("feeder", "mesh.demo.feeder", TOPIC, RATE, self._fed, *pairs)

    def _await(self, what: str, probe: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not probe():
            self._children.check()
            if time.monotonic() > deadline:
                raise ChildFailed(f"not within {timeout:g} s: {what}")
            time.sleep(0.2)

    def landed(self) -> Iterator[Entry]:
        """The records of the files that the table's own log names; others are of batches that did not end. Every tenth
        entry of the log names those before it once more."""
        logged = [batch.read_text().splitlines()[1:] for batch in (self.table / "_spark_metadata").glob("[0-9]*")]
        for path in sorted({json.loads(line)["path"] for lines in logged for line in lines}):
            yield from _entries(Path(path.removeprefix("file://")))


def _entries(file: Path) -> Iterator[Entry]:
    for row in parquet.read_table(file, columns=["key", "value", "headers", "timestamp"]).to_pylist():
        headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
        milliseconds = round(row["timestamp"].timestamp() * 1_000)
        yield Entry.of(Record(row["key"], row["value"], headers, milliseconds))


def main(
    duration: Annotated[float | None, typer.Option(min=1, help="End by itself after so many seconds.")] = None,
) -> None:
    """Exit code 0 when every record is in the table or was delivered to the consumer, exactly once in all."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-mesh-landing-"))
    succeeded = False
    try:
        with StopRequest() as stop, Children(folder) as children:
            verdict = LandingDemo(folder, children, stop).run(duration)
        _say(*verdict.lines())
        succeeded = verdict.exactly_once
    except ChildFailed as failure:
        _say(str(failure))
    if succeeded:
        shutil.rmtree(folder)
    else:
        _say(f"configuration, logs and the table are in {folder}")
    raise typer.Exit(0 if succeeded else 1)


def _say(*lines: str) -> None:
    for line in lines:
        typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
