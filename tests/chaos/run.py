"""One run of chaos: carries out the plan of a seed, heals and drains everything, and runs the checker."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import KafkaException

from tests.chaos.actors import DEAD, GROUP, TOPIC, ClusterActor, Members, MeshActor
from tests.chaos.checker import check
from tests.chaos.evidence import DeadLetter, Evidence, Kind, Original, Verdict
from tests.chaos.faults import Course, DoneTo, Faults, Until
from tests.chaos.feeds import Feeding, Plain, Transactions, feed_poison
from tests.chaos.plan import Kind as Client
from tests.chaos.plan import Plan, Step
from tests.integration.feeding import stored_upstream
from tests.integration.processes import eventually
from tests.integration.records import Record, Stored, View

DRAIN = 120.0
"""Seconds after the last disturbance in which everything must be delivered and committed, beyond the members'
processing time."""
PER_RECORD = 0.001
"""Seconds that a member takes to journal a record, on a busy machine."""
RESTART = 3.0
"""Seconds until a member that gave up is restarted: without a pause it would give up again and again."""


@dataclass(slots=True)
class _Task:
    """A fault in progress: its present wait, and the time from which it may continue."""

    step: Step
    course: Course
    waits: Until | None = None
    deadline: float = 0.0
    has_struck: bool = False


@dataclass(slots=True)
class Outcome:
    """The outcome of a run. problems: those that the checker did not find in the journals."""

    plan: Plan
    folder: Path
    verdict: Verdict | None = None
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        return self.verdict is not None and not self.verdict.findings and not self.problems

    def __str__(self) -> str:
        lines = [
            f"seed {self.plan.seed}, {self.seconds:.0f} s: {'good' if self.is_good else 'FAILED'}",
            str(self.verdict),
        ]
        if not self.is_good:
            lines += [*self.problems, str(self.plan), f"journals and logs: {self.folder}"]
        return "\n".join(lines)


class Run:
    """A chaos run. It starts the actors; call `carry_out` once; `end` kills all that are left."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None] = lambda _: None) -> None:
        self._plan = plan
        self._folder = folder
        self._say = say
        self._begin = time.monotonic()
        self._tasks: list[_Task] = []
        self._resting: list[tuple[float, Client]] = []
        """The times at which members of each kind are restarted."""
        self._clean_from = 0.0
        self._poison: dict[str, Record] = {}
        setup = plan.setup
        self._clusters: list[ClusterActor] = []
        self._meshes: list[MeshActor] = []
        self._members = Members(folder, setup, self._meshes)
        self._faults = Faults(self._clusters, self._meshes, self._members)

    def carry_out(self) -> Outcome:
        """Carries out the whole run. The outcome has everything that goes wrong; only bugs of the harness raise."""
        outcome = Outcome(self._plan, self._folder)
        (self._folder / "plan.txt").write_text(f"{self._plan}\n")
        try:
            self._start()
            self._steps()
            self._finish_feeding()
            self._drain("after the faults")
            self._epilogue()
        except (AssertionError, RuntimeError, KafkaException) as problem:
            self._note_state()
            outcome.problems.append(str(problem))
            self._stop_at_once()
        self._judge(outcome)
        outcome.seconds = time.monotonic() - self._begin
        return outcome

    def end(self) -> None:
        """Kills all remaining processes."""
        self._members.end()
        for mesh in self._meshes:
            mesh.end()
        for cluster in self._clusters:
            cluster.end()

    def _stop_at_once(self) -> None:
        """Stops all actors, so that nothing changes while the run is judged."""
        for task in self._tasks:
            task.course.close()  # notes what it disturbs
        for actor in self._clusters:
            actor.cluster.thaw()
        self._members.end()
        for mesh in self._meshes:
            mesh.mesh.kill()
        for feeding in self._feedings():
            with suppress(AssertionError, KafkaException):
                feeding.stop(5)

    # Phases

    def _start(self) -> None:
        setup, seed = self._plan.setup, self._plan.seed
        for name in ("eu", "us"):
            self._clusters.append(ClusterActor.start(name, self._folder, setup))
            self._clusters[-1].create_topic(setup, setup.partitions)
            self._faults.add_cluster(name)
        for each in self._clusters:
            each.feed(setup, seed)
        begin = time.monotonic()
        for number in range(setup.meshes):
            self._meshes.append(MeshActor.start(number, self._clusters, setup, self._folder))
        for kind in setup.members:
            self._members.start(kind)
        self._faults.started(begin)
        self._feed_poison()

    def _feed_poison(self) -> None:
        number, count = self._plan.seed + len(self._poison), self._plan.setup.poison
        self._poison |= feed_poison(self._clusters[number % 2].cluster, TOPIC, count, len(self._poison))

    def _steps(self) -> None:
        late = len(self._plan.steps) * 3 // 4
        for step in self._plan.steps:
            if step.number == late:
                self._feed_poison()
            self._step(step)
        self._go_on("all is healed", lambda: not self._tasks, timeout=300)

    def _step(self, step: Step) -> None:
        goal = self._members.count() + step.after
        self._go_on(f"{step.after} more records before step {step.number}", lambda: self._members.count() >= goal)
        task = _Task(step, self._faults.course(step))
        self._tasks.append(task)
        self._go_on(f"step {step} strikes", lambda: task.has_struck, timeout=300)

    def _finish_feeding(self) -> None:
        for feeding in self._feedings():
            feeding.stop()
        for source in self._sources():
            if isinstance(source, Transactions):
                source.finish()

    def _drain(self, when: str) -> None:
        """Waits until the upstream groups have committed beyond the last record of every partition."""
        ends: dict[tuple[str, str, int], int] = defaultdict(int)
        for each in self._stored():
            place = (each.cluster, each.topic, each.partition)
            ends[place] = max(ends[place], each.offset + 1)

        def behind() -> dict[tuple[str, str, int], tuple[int, int]]:
            committed = self._committed()
            return {
                place: (committed.get(place, 0), end) for place, end in ends.items() if committed.get(place, 0) < end
            }

        begin, looked = time.monotonic(), 0.0
        # One member may have to do all of it: members of a mesh without partitions get nothing.
        left = sum(end - offset for offset, end in behind().values())
        timeout = DRAIN + left * (self._plan.setup.seconds_per_record + PER_RECORD)

        def is_drained() -> bool:
            nonlocal looked
            if time.monotonic() < looked + 0.5:
                return False
            looked = time.monotonic()
            return not behind()

        try:
            self._go_on("", is_drained, timeout=timeout)
        except AssertionError as problem:
            text = f"{when}, not committed upstream within {timeout:.0f} s: {behind()} (committed, needed)"
            raise AssertionError(text) from problem
        self._say(f"drained {when} in {time.monotonic() - begin:.1f} s")

    def _epilogue(self) -> None:
        """All members leave cleanly; others join restarted meshes, and get only records fed after that."""
        for member in self._members.running:
            member.process.signal(signal.SIGTERM)
        for member in self._members.running:
            code = member.process.wait(40)
            assert code in (0, 143), f"{member.name} ended with {code}:\n{member.process.log_tail()}"
        self._members.running.clear()
        for mesh in self._meshes:
            mesh.mesh.stop()
        self._clean_from = time.monotonic()
        for mesh in self._meshes:
            mesh.mesh.restart()
        for kind in (Client.CONFLUENT, Client.CONFLUENT_CONSUMER_PROTOCOL, Client.AIOKAFKA, Client.KAFKA_PYTHON):
            self._members.start(kind)
        # Partitions move until each mesh has its members; records fed after that come once.
        eventually("all have joined", self._have_all_joined, timeout=60)
        for source in self._sources():
            if isinstance(source, Plain):
                source.more(500)
        self._drain("at the end")
        eventually("nothing is in flight", lambda: not any(mesh.in_flight() for mesh in self._meshes), timeout=20)

    def _have_all_joined(self) -> bool:
        """The members are in the pools, and every mesh with members is in the upstream groups with its partitions."""
        pools = [pool for mesh in self._meshes for pool in mesh.pools()]
        counts = [pool["member_count"] for pool in pools if pool["member_count"]]
        if sum(counts) != len(self._members.running):
            return False
        held = Counter(each["cluster"] for pool in pools for each in pool["partitions"] if each["standing"] == "active")
        return all(
            each.cluster.group_members(GROUP) == len(counts)
            and held[each.cluster.name] == self._faults.partitions(each)
            for each in self._clusters
        )

    # The loop

    def _go_on(self, what: str, goal: Callable[[], bool], timeout: float = 180.0) -> None:
        """Continues until the goal is reached; AssertionError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not goal():
            self._supervise()
            for task in list(self._tasks):
                self._advance(task)
            assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
            time.sleep(0.02)

    def _advance(self, task: _Task) -> None:
        while True:
            if task.waits is not None:
                if not task.waits.probe():
                    assert time.monotonic() < task.deadline, (
                        f"step {task.step}: not within {task.waits.timeout:g} s: {task.waits.what}"
                    )
                    return
                task.waits = None
            try:
                said = next(task.course)
            except StopIteration:
                self._tasks.remove(task)
                return
            match said:
                case DoneTo(what):
                    task.has_struck = True
                    self._say(f"{time.monotonic():.3f} {task.step.number}: {task.step.fault.value}: {what}")
                    return
                case Until() as waits:
                    task.waits, task.deadline = waits, time.monotonic() + waits.timeout

    def _supervise(self) -> None:
        """Replaces a member that died of a record, or gave up while no mesh answered, as a supervisor does in
        production."""
        for member in list(self._members.running):
            if not member.is_gone or member in self._members.busy:
                continue
            code = member.process.exit_code
            may_give_up = not self._faults.notes.is_calm
            assert member.died_of_poison or may_give_up, (
                f"{member.name} ended by itself with {code}:\n{member.process.log_tail()}"
            )
            self._members.running.remove(member)
            self._faults.died(member, max((each.at or 0.0 for each in member.deliveries()), default=0.0))
            self._resting.append((time.monotonic() + (0 if member.died_of_poison else RESTART), member.kind))
        due = [each for each in self._resting if each[0] <= time.monotonic()]
        for each in due:
            self._resting.remove(each)
            self._members.start(each[1])

    def _sources(self) -> list[Plain | Transactions]:
        return [source for each in self._clusters for source in each.sources]

    def _feedings(self) -> list[Feeding]:
        return [feeding for each in self._clusters for feeding in each.feedings]

    # End

    def _stored(self) -> Iterator[Stored]:
        for each in self._clusters:
            yield from stored_upstream(each.cluster, TOPIC)

    def _judge(self, outcome: Outcome) -> None:
        for mesh in self._meshes:
            for entry in mesh.mesh.log_entries():
                if entry.get("level") in ("error", "critical"):
                    outcome.problems.append(f"{mesh.name} logged: {json.dumps(entry)[:2_000]}")
        try:
            outcome.verdict = check(self._evidence())
            if not outcome.problems and not outcome.verdict.ordered:
                outcome.problems.append("the order of nothing could be judged, not even at the end")
            if outcome.problems:
                self._keep_lost_for_good(outcome.verdict)
        except (AssertionError, RuntimeError, KafkaException) as problem:
            outcome.problems.append(f"no evidence: {problem}")

    def _keep_lost_for_good(self, verdict: Verdict) -> None:
        """A run that ended early did not wait for all records: lost are those below the committed offsets."""
        committed = self._committed()
        places = {each.record.id: each for each in self._stored()}

        def is_below(identity: str) -> bool:
            each = places[identity]
            return each.offset < committed.get((each.cluster, each.topic, each.partition), 0)

        verdict.findings = [each for each in verdict.findings if each.kind is not Kind.LOST or is_below(each.id)]

    def _committed(self) -> dict[tuple[str, str, int], int]:
        return {
            (each.cluster.name, *place): offset
            for each in self._clusters
            for place, offset in each.cluster.committed(GROUP).items()
        }

    def _evidence(self) -> Evidence:
        clean_from = self._clean_from or float("inf")
        disturbances = [replace(each, end=min(each.end, clean_from)) for each in self._faults.notes.disturbances]
        return Evidence(
            self._originals(),
            [each for member in self._members.all for each in member.deliveries()],
            [each for member in self._members.all for each in member.commits()],
            [each for member in self._members.all for each in member.acknowledgements()],
            disturbances,
            [DeadLetter(each.record.id, _hash_of_letter(each.record)) for each in self._dead_letters()],
            frozenset(self._poison),
            keeping=frozenset(each.name for each in self._members.all if each.kind is Client.KAFKA_PYTHON),
            sharing=frozenset(each.name for each in self._members.all if each.kind is Client.SHARE),
            assignments={member.name: list(member.assignments()) for member in self._members.all},
            clean_from=clean_from,
        )

    def _originals(self) -> dict[str, Original]:
        originals = {
            identity: Original(_hashes(record), copies=0, may_come=may_come, fed=fed, fed_to=source.cluster)
            for source in self._sources()
            for identity, record, may_come, fed in source.records()
        }
        for identity, record in self._poison.items():
            originals[identity] = Original(_hashes(record), copies=0)
        for each in self._stored():
            before = originals[each.record.id]
            place = (each.cluster, each.topic, each.partition)
            # A record that was thought to be aborted is stored only if it was not.
            originals[each.record.id] = replace(before, copies=before.copies + 1, place=place, offset=each.offset)
        return originals

    def _dead_letters(self) -> Iterator[Stored]:
        if self._plan.setup.poison:
            for each in self._clusters:
                yield from stored_upstream(each.cluster, DEAD)

    def _note_state(self) -> None:
        """Notes the state of the meshes after a failure."""
        for mesh in self._meshes:
            with suppress(OSError):
                (self._folder / f"{mesh.name}.status.json").write_text(json.dumps(mesh.mesh.status(), indent=1))


def _hashes(record: Record) -> frozenset[str]:
    return frozenset(record.fingerprint(view) for view in (View.WHOLE, View.KCAT))


def _hash_of_letter(record: Record) -> str:
    headers = tuple(header for header in record.headers if not header[0].startswith("kafka-mesh."))
    return replace(record, headers=headers).fingerprint(View.WHOLE)
