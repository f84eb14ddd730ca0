"""`kafka-mesh demo`: the main job on embedded clusters, and an independent count of what came out of it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mesh.demo.children import Child, ChildFailed, Children
from mesh.demo.endpoint import MeshEndpoint
from mesh.demo.journal import Counter
from mesh.demo.judge import Verdict, judge
from mesh.demo.member import Fault
from mesh.demo.signals import StopRequest
from mesh.demo.table import Row, Table

TOPIC = "orders"
GROUP = "demo"
CLUSTERS = ("eu", "us")
MEMBERS = {"fast-1": 0.0, "fast-2": 0.0, "slow": 0.02}
"""The consumers: seconds that each of them works on a record."""

RATE = 400.0
"""Records fed per second, to all clusters together. With 200 bytes each, a cluster keeps the last minutes of that."""

FAULT_VARIABLE = "KAFKA_MESH_DEMO_FAULT"
"""For tests: what the first member does wrong with its first record."""

_START_TIMEOUT = 20.0
_POLL = 0.05
_TICK = 1.0
_PATIENCE = 8.0
_DRAIN_TIMEOUT = 120.0


class Stopped(Exception):
    """Asked to stop before anything ran."""


def run(duration: float | None = None, *, rate: float = RATE) -> int:
    """Run the demo, for `duration` seconds of feeding or until it is asked to stop.

    Returns the exit code: 0 when every record fed was delivered exactly once and every process did well, else 1.
    """
    folder = Path(tempfile.mkdtemp(prefix="kafka-mesh-demo-"))
    succeeded = False
    try:
        with StopRequest() as stop, Children(folder) as children:
            verdict = Demo(folder, children, stop, Fault(os.environ.get(FAULT_VARIABLE, "none"))).run(duration, rate)
        _say(*verdict.lines())
        succeeded = verdict.exactly_once
    except ChildFailed as failure:
        _say(str(failure))
    except Stopped:
        _say("stopped before a record was fed")
    except KeyboardInterrupt:
        _say("stopped at once, by a second signal: nothing was counted")
    if succeeded:
        shutil.rmtree(folder)
    else:
        _say(f"configuration, logs and journals are in {folder}")
    return 0 if succeeded else 1


@dataclass(frozen=True, slots=True)
class _Running:
    """What has been started, in the order in which it is stopped."""

    feeder: Child
    members: tuple[Child, ...]
    mesh: Child
    clusters: tuple[Child, ...]


class Demo:
    """One run: all its files are in `folder`."""

    def __init__(self, folder: Path, children: Children, stop: StopRequest, fault: Fault) -> None:
        self._folder = folder
        self._children = children
        self._stop = stop
        self._fault = fault
        self._endpoint = MeshEndpoint.on_free_ports()
        self._fed_journal = folder / "fed.journal"
        self._journals = {name: folder / f"{name}.journal" for name in MEMBERS}
        self._fed = Counter(self._fed_journal)
        self._received = {name: Counter(path) for name, path in self._journals.items()}
        self._table = Table(tuple(MEMBERS))
        self._begin = self._next_line = 0.0

    def run(self, duration: float | None, rate: float) -> Verdict:
        """Start everything, feed, drain, stop everything, judge."""
        running = self._start(rate)
        _say(*self._introduction(rate, duration))
        self._begin = time.monotonic()
        self._next_line = self._begin + _TICK
        self._feed(duration)
        self._children.stop(running.feeder)
        _say("the feeder has stopped; the members take what is left")
        self._drain()
        self._children.stop(*running.members)
        self._children.stop(running.mesh)
        self._children.stop(*running.clusters)
        return self._judge()

    def _start(self, rate: float) -> _Running:
        _say(f"starting the clusters {' and '.join(CLUSTERS)}, the mesh and {len(MEMBERS)} consumers")
        files = {name: self._folder / f"{name}.address" for name in CLUSTERS}
        clusters = tuple(
            self._children.start(f"cluster-{name}", "mesh.demo.clusters", TOPIC, file) for name, file in files.items()
        )
        self._await("the clusters", lambda: all(file.exists() for file in files.values()))
        addresses = {name: file.read_text() for name, file in files.items()}
        mesh = self._start_mesh(addresses)
        members = tuple(self._start_member(name, work) for name, work in MEMBERS.items())
        pairs = [f"{name}={address}" for name, address in addresses.items()]
        feeder = self._children.start("feeder", "mesh.demo.feeder", TOPIC, rate, self._fed_journal, *pairs)
        return _Running(feeder, members, mesh, clusters)

    def _start_mesh(self, clusters: Mapping[str, str]) -> Child:
        file = self._folder / "kafka-mesh.yaml"
        file.write_text(self._endpoint.configuration(TOPIC, clusters))
        mesh = self._children.start("kafka-mesh", "mesh.cli", "run", file)
        self._await("kafka-mesh", self._endpoint.is_ready)
        return mesh

    def _start_member(self, name: str, work: float) -> Child:
        options: dict[str, str | Path | float] = {
            "--bootstrap-servers": self._endpoint.bootstrap_servers,
            "--group": GROUP,
            "--topic": TOPIC,
            "--name": name,
            "--journal": self._journals[name],
            "--work": work,
        }
        if name == next(iter(MEMBERS)):
            options["--fault"] = self._fault.value
        return self._children.start(name, "mesh.demo.member", *(part for pair in options.items() for part in pair))

    def _await(self, what: str, probe: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not probe():
            self._children.check()
            if self._stop.wait(_POLL):
                raise Stopped
            if time.monotonic() > deadline:
                raise ChildFailed(f"{what}: not ready within {_START_TIMEOUT:g} s")

    def _feed(self, duration: float | None) -> None:
        end = float("inf") if duration is None else self._begin + duration
        while not self._stop.wait(min(self._next_line, end) - time.monotonic()):
            self._watch()
            if time.monotonic() >= end:
                return

    def _drain(self) -> None:
        """Until all has been delivered; or nothing came for a while, or it takes too long."""
        started = progress = time.monotonic()
        delivered = -1
        while (now := time.monotonic()) < min(progress + _PATIENCE, started + _DRAIN_TIMEOUT):
            self._watch()
            count = sum(counter.count() for counter in self._received.values())
            if count >= self._fed.count() and not self._judge().missing:
                break
            if count > delivered:
                delivered, progress = count, now
            time.sleep(_POLL)
        self._show()

    def _watch(self) -> None:
        self._children.check()
        if time.monotonic() >= self._next_line:
            self._show()
            self._next_line += _TICK

    def _judge(self) -> Verdict:
        return judge(self._fed_journal, self._journals.values())

    def _show(self) -> None:
        received = {name: counter.count() for name, counter in self._received.items()}
        row = Row(time.monotonic() - self._begin, self._fed.count(), received, self._endpoint.readings(GROUP))
        _say(*self._table.lines(row))

    def _introduction(self, rate: float, duration: float | None) -> list[str]:
        address = self._endpoint.bootstrap_servers
        work = max(MEMBERS.values())
        end = "Ctrl-C ends" if duration is None else f"{duration:g} s, or Ctrl-C, end"
        return [
            "",
            f"  {rate:g} records a second go to the topic {TOPIC}, on {' and '.join(CLUSTERS)} in turn.",
            f"  {', '.join(MEMBERS)} share them, as the group {GROUP}, through the mesh at {address}.",
            f"  (slow works {1000 * work:g} ms on each record; the clusters let a new group in after 3 s.)",
            f"  {end} the feeding; then the members take what is left, and all is counted.",
            "",
            "  Your own consumer gets all of them too, with a group of its own:",
            "",
            f"    kcat -b {address} -G mine {TOPIC}",
            "",
            "    from confluent_kafka import Consumer",
            f'    consumer = Consumer({{"bootstrap.servers": "{address}", "group.id": "mine"}})',
            f'    consumer.subscribe(["{TOPIC}"])',
            "    while True:",
            "        print((message := consumer.poll()).value(), message.error())",
            "",
            f"  (In the group {GROUP} it gets a share, and what it takes counts as never delivered here.)",
            f"  Metrics: {self._endpoint.metrics}",
            "",
        ]


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)
