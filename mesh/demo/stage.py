"""The stage of the demo: two embedded clusters, the mesh, a feeder, and consumers that come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mesh.demo.processes.children import Child, ChildFailed, Children
from mesh.demo.processes.endpoint import MeshEndpoint
from mesh.demo.processes.journal import Counter
from mesh.demo.processes.judge import JudgeVerdict, judge
from mesh.demo.processes.member import Fault
from mesh.demo.processes.signals import StopRequest

TOPIC = "orders"
GROUP = "demo"
CLUSTERS = ("eu", "us")
MEMBERS = {"fast-1": 0.0, "fast-2": 0.0, "slow": 0.02}
"""The consumers, with the seconds that each works on a record."""

RATE = 400.0
"""Records that the demo feeds per second, to all clusters together. With 200 bytes each, a cluster keeps the last
minutes of them."""

_START_TIMEOUT = 60.0
_POLL = 0.05


class Stopped(Exception):
    """Raised when a stop is requested before anything ran."""


class StageState(Enum):
    """The state of a consumer of the demo."""

    RUNNING = "running"
    FROZEN = "frozen"
    KILLED = "killed"


@dataclass(slots=True)
class Actor:
    """A consumer of the demo. received: counts the records in its journal."""

    child: Child
    received: Counter
    state: StageState = StageState.RUNNING


class Stage:
    """One run of the demo. All its files are in `folder`.

    session: the session timeout of consumers in seconds; None for the client's default.
    """

    def __init__(
        self, folder: Path, children: Children, stop: StopRequest, fault: Fault, session: float | None = None
    ) -> None:
        self._folder = folder
        self._children = children
        self._stop = stop
        self._fault = fault
        self._session = session
        self._fed_journal = folder / "fed.journal"
        self._others: list[Child] = []
        self._feeder: Child | None = None
        self.endpoint = MeshEndpoint.on_free_ports()
        self.fed = Counter(self._fed_journal)
        self.actors: dict[str, Actor] = {}

    def start(self, rate: float) -> None:
        """Starts everything. Raises Stopped if a stop is requested meanwhile."""
        files = {name: self._folder / f"{name}.address" for name in CLUSTERS}
        clusters = [
            self._children.start(f"cluster-{name}", "mesh.demo.processes.clusters", TOPIC, file)
            for name, file in files.items()
        ]
        self._await("the clusters", lambda: all(file.exists() for file in files.values()))
        addresses = {name: file.read_text() for name, file in files.items()}
        self._others = [self._start_mesh(addresses), *clusters]
        for name, work in MEMBERS.items():
            self.add(name, work)
        pairs = [f"{name}={address}" for name, address in addresses.items()]
        self._feeder = self._children.start(
            "feeder", "mesh.demo.processes.feeder", TOPIC, rate, self._fed_journal, *pairs
        )
        # Otherwise a short run on a busy machine could end before the first record.
        self._await("the feeder", lambda: self.fed.count() > 0)

    def check(self) -> None:
        """Raises ChildFailed when a process has ended that was not asked to."""
        self._children.check()

    # Consumers

    def add(self, name: str, work: float) -> None:
        """Starts one more consumer. work: seconds that it works on a record. Names are never used twice."""
        journal = self._folder / f"{name}.journal"
        options: dict[str, str | Path | float] = {
            "--bootstrap-servers": self.endpoint.bootstrap_servers,
            "--group": GROUP,
            "--topic": TOPIC,
            "--name": name,
            "--journal": journal,
            "--work": work,
        }
        if self._session is not None:
            options["--session"] = self._session
        if not self.actors:
            options["--fault"] = self._fault.value
        child = self._children.start(
            name, "mesh.demo.processes.member", *(part for pair in options.items() for part in pair)
        )
        self.actors[name] = Actor(child, Counter(journal))

    def freeze(self, name: str) -> None:
        """Freezes a consumer: it stands still, with its connections open."""
        actor = self.actors[name]
        actor.child.freeze()
        actor.state = StageState.FROZEN

    def thaw(self, name: str) -> None:
        """Thaws a consumer."""
        actor = self.actors[name]
        actor.child.thaw()
        actor.state = StageState.RUNNING

    def kill(self, name: str) -> None:
        """Kills a consumer with SIGKILL."""
        actor = self.actors[name]
        self._children.kill(actor.child)
        actor.state = StageState.KILLED

    @property
    def living(self) -> list[str]:
        """Returns the consumers that were not killed."""
        return [name for name, actor in self.actors.items() if actor.state is not StageState.KILLED]

    def received(self) -> dict[str, int]:
        """Returns the number of received records by consumer."""
        return {name: actor.received.count() for name, actor in self.actors.items()}

    # Stop

    def stop_feeding(self) -> None:
        """Stops the feeder; everything that was fed is in its journal."""
        if self._feeder is not None:
            self._children.stop(self._feeder)

    def stop(self) -> None:
        """Stops the consumers first, then the mesh, then the clusters. No consumer may be frozen."""
        self._children.stop(*(self.actors[name].child for name in self.living))
        for child in self._others:
            self._children.stop(child)

    def judge(self) -> JudgeVerdict:
        """Returns the independent count so far."""
        return judge(self._fed_journal, [self._folder / f"{name}.journal" for name in self.actors])

    # The start

    def _start_mesh(self, clusters: Mapping[str, str]) -> Child:
        file = self._folder / "kafka-mesh.yaml"
        file.write_text(self.endpoint.configuration(TOPIC, clusters))
        mesh = self._children.start("kafka-mesh", "mesh.cli", "run", file)
        self._await("kafka-mesh", self.endpoint.is_ready)
        return mesh

    def _await(self, what: str, probe: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not probe():
            self._children.check()
            if self._stop.wait(_POLL):
                raise Stopped
            if time.monotonic() > deadline:
                raise ChildFailed(f"{what}: not ready within {_START_TIMEOUT:g} s")
