"""How to cause each fault: generators that say what they wait for, and yield `DoneTo` as soon as the fault has struck.

The healing after it goes on during the next steps. A fault notes as a disturbance whatever it takes away from members.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from tests.chaos.actors import (
    MAXIMUM_MEMBERS,
    MINIMUM_MEMBERS,
    TOPIC,
    ClusterActor,
    Members,
    MeshActor,
)
from tests.chaos.disturbances import Going, Notes
from tests.chaos.journals import ChaosMember
from tests.chaos.plan import Fault, Step
from tests.integration.relay import Relay


@dataclass(frozen=True, slots=True)
class Until:
    """Continue when `probe` is true; raises AssertionError after `timeout` seconds."""

    what: str
    probe: Callable[[], bool]
    timeout: float = 180.0


@dataclass(frozen=True, slots=True)
class DoneTo:
    """The fault has struck; what members had to lose, for the log."""

    what: str


Course: TypeAlias = Generator[Until | DoneTo, None, None]
Actor = TypeVar("Actor", ClusterActor, MeshActor)


class Faults:
    def __init__(self, clusters: Sequence[ClusterActor], meshes: Sequence[MeshActor], members: Members) -> None:
        self._clusters = clusters
        self._meshes = meshes
        self._members = members
        self._partitions: dict[str, int] = {}
        self.notes = Notes(meshes, members)

    def add_cluster(self, name: str) -> None:
        """Its topic has as many partitions as the setup says."""
        self._partitions[name] = self._members.setup.partitions

    def partitions(self, cluster: ClusterActor) -> int:
        """The present number of partitions of its topic."""
        return self._partitions[cluster.cluster.name]

    def course(self, step: Step) -> Course:
        """Carries out a step; yields `DoneTo` once."""
        return _COURSES[step.fault](self, step)

    def started(self, begin: float) -> None:
        """The meshes divide the partitions among them while members join."""
        self.notes.note("all starts", begin, forgets=True)

    def died(self, member: ChaosMember, since: float) -> None:
        """A member ended by itself."""
        self.notes.note(f"{member.name} ended by itself", since, members=[member])

    # Members

    def kill_member(self, step: Step) -> Course:
        member, holds = yield from self._holder(step, lambda each: not each.kind.commits_by_itself)
        begin = time.monotonic()
        member.process.kill()
        self._gone(member)
        yield DoneTo(f"{member.name}, which held {holds}")
        self.notes.note(step.fault.value, begin, members=[member])
        self._members.start(member.kind)

    def freeze_member(self, step: Step) -> Course:
        member, holds = yield from self._holder(step, lambda _: True)
        with self.notes.disturbing(step.fault.value, members=[member]):
            member.process.signal(signal.SIGSTOP)
            yield DoneTo(f"{member.name}, which held {holds}")
            yield _rest(step.seconds)
            member.process.signal(signal.SIGCONT)
        self._members.busy.discard(member)

    def close_member(self, step: Step) -> Course:
        if len(self._members.running) <= MINIMUM_MEMBERS:
            yield from self.join_member(step)
            return
        yield Until("a member is free", lambda: bool(self._free_members()))
        free = self._free_members()
        member = free[step.target % len(free)]
        self._members.busy.add(member)
        yield DoneTo(member.name)
        yield from self._closed([member], step)

    def join_member(self, step: Step) -> Course:
        if len(self._members.running) >= MAXIMUM_MEMBERS:
            yield from self.close_member(step)
            return
        kinds = self._members.setup.members
        member = self._members.start(kinds[step.target % len(kinds)])
        yield DoneTo(member.name)
        if len(self._meshes) > 1 and self._members.may_be_alone(member):
            self.notes.note(f"{member.name} is the first one of its mesh", time.monotonic(), [member])

    def replace_all_members(self, step: Step) -> Course:
        yield Until("no member is busy", lambda: not self._members.busy)
        leaving = list(self._members.running)
        self._members.busy.update(leaving)
        yield DoneTo(f"{len(leaving)} of them")
        yield from self._closed(leaving, step)
        for member in leaving:
            self._members.start(member.kind)

    def _closed(self, members: Sequence[ChaosMember], step: Step) -> Course:
        with self.notes.disturbing(step.fault.value, members=members):
            for member in members:
                member.process.signal(signal.SIGTERM)
            for member in members:
                yield Until(f"{member.name} ends", lambda member=member: member.is_gone)  # type: ignore[misc]
                code = member.process.exit_code
                ends_well = code in (0, 143) or member.died_of_poison
                assert ends_well or not self.notes.is_calm_but_for(1), f"{member.name} ended with {code}"
                self._gone(member)

    # Meshes

    def kill_mesh(self, step: Step) -> Course:
        mesh, holds = yield from self._loaded_mesh(step)
        with self.notes.disturbing(step.fault.value, forgets=True):
            mesh.is_reachable = False
            mesh.mesh.kill()
            yield DoneTo(f"{mesh.name}; members held {holds}")
            yield _rest(step.seconds)
            yield from self._launched(mesh)
        mesh.is_busy = False

    def freeze_mesh(self, step: Step) -> Course:
        mesh, holds = yield from self._loaded_mesh(step)
        with self.notes.disturbing(step.fault.value, forgets=True):
            mesh.is_reachable = False
            mesh.mesh.freeze()
            yield DoneTo(f"{mesh.name}; members held {holds}")
            yield _rest(step.seconds)
            mesh.mesh.thaw()
            mesh.is_reachable = True
            self._comes_back(mesh)
        mesh.is_busy = False

    def restart_mesh(self, step: Step) -> Course:
        """Restarts all of them, one after the other."""
        for mesh in self._meshes:
            yield Until(f"{mesh.name} is free", lambda mesh=mesh: not mesh.is_busy)  # type: ignore[misc]
            mesh.is_busy = True
        yield DoneTo("all of them, in turn")
        for mesh in self._meshes:
            with self.notes.disturbing(step.fault.value, forgets=True):
                mesh.is_reachable = False
                mesh.mesh.terminate()
                yield Until(f"{mesh.name} ends", lambda mesh=mesh: mesh.mesh.exit_code is not None)  # type: ignore[misc]
                assert mesh.mesh.exit_code == 0, f"{mesh.name} ended with {mesh.mesh.exit_code} after SIGTERM"
                yield from self._launched(mesh)
        for mesh in self._meshes:
            mesh.is_busy = False

    def _launched(self, mesh: MeshActor) -> Course:
        mesh.mesh.launch()
        yield Until(f"{mesh.name} is ready", mesh.mesh.is_ready)
        mesh.is_reachable = True
        self._comes_back(mesh)

    def _comes_back(self, mesh: MeshActor) -> None:
        """Partitions may go to it, from members that got theirs while it was away."""
        self.notes.note(f"{mesh.name} comes back", time.monotonic(), forgets=True)

    # Brokers

    def kill_broker(self, step: Step) -> Course:
        yield from self._stopped_broker(step, lambda actor: actor.cluster.kill())

    def restart_broker(self, step: Step) -> Course:
        yield from self._stopped_broker(step, lambda actor: actor.cluster.stop())

    def _stopped_broker(self, step: Step, stop: Callable[[ClusterActor], None]) -> Course:
        actor = yield from self._free(self._clusters, step)
        holds = yield from self._something_to_lose()
        with self.notes.disturbing(step.fault.value, clusters=[actor]) as going:
            stop(actor)
            yield DoneTo(f"{actor.cluster.name}; members held {holds}")
            yield _rest(step.seconds)
            actor.cluster.launch()
            yield Until(f"{actor.cluster.name} answers", lambda: actor.cluster.is_up(0.2))
            yield from self._back(going)
        actor.is_busy = False

    def freeze_broker(self, step: Step) -> Course:
        actor = yield from self._free(self._clusters, step)
        holds = yield from self._something_to_lose()
        with self.notes.disturbing(step.fault.value, clusters=[actor]) as going:
            actor.cluster.freeze()
            yield DoneTo(f"{actor.cluster.name}; members held {holds}")
            yield _rest(step.seconds)
            actor.cluster.thaw()
            yield from self._back(going)
        actor.is_busy = False

    def grow_topic(self, step: Step) -> Course:
        actor = yield from self._free(self._clusters, step)
        name = actor.cluster.name
        self._partitions[name] += 1
        with self.notes.disturbing(step.fault.value, forgets=True):
            actor.cluster.grow_topic(TOPIC, self._partitions[name])
            yield DoneTo(f"{name}, to {self._partitions[name]} partitions")
            yield _rest(6.0)  # metadata_refresh
        actor.is_busy = False

    def recreate_topic(self, step: Step) -> Course:
        """Recreates the topic at once, or a while after its deletion. Records that were not read before are gone."""
        actor = yield from self._free(self._clusters, step)
        for feeding in actor.feedings:
            feeding.hold()
        yield Until("nothing feeds the topic", lambda: all(each.is_idle for each in actor.feedings))
        with self.notes.disturbing(step.fault.value):
            actor.cluster.delete_topic(TOPIC)
            yield DoneTo(f"{actor.cluster.name}; members held {sum(self._in_flight().values())}")
            yield _rest(step.seconds if step.target % 2 else 0.0)
            actor.create_topic(self._members.setup, self.partitions(actor))
            for source in actor.sources:
                source.begin_anew()
            for feeding in actor.feedings:
                feeding.go_on()
            yield _rest(6.0)  # metadata_refresh
        actor.is_busy = False

    def lose_leaders(self, step: Step) -> Course:
        """Members lose nothing: partitions of the first broker continue, and it stores all commits."""
        actor = yield from self._free(self._clusters, step)
        second = actor.second
        assert second is not None
        holds = yield from self._something_to_lose()
        second.kill()
        yield DoneTo(f"{actor.cluster.name}; members held {holds}")
        yield Until("partitions have no leader", lambda: actor.partitions_without_leader() > 0)
        yield _rest(step.seconds)
        second.launch()
        yield Until("all partitions have leaders", lambda: actor.partitions_without_leader() == 0)
        actor.is_busy = False

    # Connections

    def cut_clients(self, step: Step) -> Course:
        mesh = self._meshes[step.target % len(self._meshes)]
        holds = yield from self._something_to_lose()
        begin = time.monotonic()
        yield DoneTo(f"{mesh.relay.cut()} connections of {mesh.name}; members held {holds}")
        self.notes.note(step.fault.value, begin)

    def slow_clients(self, step: Step) -> Course:
        mesh = self._meshes[step.target % len(self._meshes)]
        yield from self._slowed(step, mesh.relay, mesh.name, ())

    def cut_upstream(self, step: Step) -> Course:
        actor = self._clusters[step.target % len(self._clusters)]
        holds = yield from self._something_to_lose()
        with self.notes.disturbing(step.fault.value, clusters=[actor]) as going:
            yield DoneTo(f"{actor.relay.cut()} connections to {actor.cluster.name}; members held {holds}")
            yield from self._back(going)

    def slow_upstream(self, step: Step) -> Course:
        actor = self._clusters[step.target % len(self._clusters)]
        yield from self._slowed(step, actor.relay, actor.cluster.name, [actor])

    def _slowed(self, step: Step, relay: Relay, name: str, clusters: Sequence[ClusterActor]) -> Course:
        with self.notes.disturbing(step.fault.value, clusters=clusters) as going:
            rate = 2_000 * (1 + step.target % 20)
            relay.slow(rate)
            yield DoneTo(f"{name}, {rate} bytes/s")
            yield from self._watched(going, step.seconds)
            relay.slow(None)
            yield from self._back(going)

    def _watched(self, going: Going, seconds: float) -> Course:
        """Slow clusters store acknowledgements, unless a mesh stops using them."""
        due, look_at, is_out = time.monotonic() + seconds, 0.0, False

        def is_over() -> bool:
            nonlocal look_at, is_out
            if not is_out and time.monotonic() >= look_at:
                is_out, look_at = not self._is_used(going.clusters), time.monotonic() + 0.2
            return time.monotonic() >= due

        yield Until("", is_over, seconds + 60)
        if not is_out and self._is_used(going.clusters):
            going.clusters = ()

    def _back(self, going: Going) -> Course:
        """A mesh on a busy machine takes a while to notice."""
        names = [each.cluster.name for each in going.clusters]
        yield Until(f"the meshes use {names} again", lambda: self._is_used(going.clusters))
        going.back = time.monotonic()

    def _is_used(self, clusters: Iterable[ClusterActor]) -> bool:
        """True if all living meshes use these clusters; a hanging mesh keeps its opinion."""
        return all(
            (each.uses(cluster.cluster.name) if each.is_reachable else each.mesh.exit_code is not None)
            for cluster in clusters
            for each in self._meshes
        )

    # Common parts

    def _free(self, actors: Sequence[Actor], step: Step) -> Generator[Until | DoneTo, None, Actor]:
        yield Until(f"one of {len(actors)} is free", lambda: not all(each.is_busy for each in actors))
        free = [each for each in actors if not each.is_busy]
        actor = free[step.target % len(free)]
        actor.is_busy = True
        return actor

    def _loaded_mesh(self, step: Step) -> Generator[Until | DoneTo, None, tuple[MeshActor, int]]:
        """Waits until members of a free mesh have records to lose; returns that mesh, and their number."""
        found: list[tuple[MeshActor, int]] = []

        def is_found() -> bool:
            held = [(each, each.in_flight().total()) for each in self._meshes if not each.is_busy]
            found[:] = [(each, count) for each, count in held if count]
            return bool(found)

        yield Until("members of a mesh that may be chosen hold records", is_found)
        mesh, count = found[step.target % len(found)]
        mesh.is_busy = True
        return mesh, count

    def _free_members(self) -> list[ChaosMember]:
        return [each for each in self._members.running if each not in self._members.busy and not each.is_gone]

    def _holder(
        self, step: Step, may_be: Callable[[ChaosMember], bool]
    ) -> Generator[Until | DoneTo, None, tuple[ChaosMember, int]]:
        """Waits until a free member has records to lose; returns that member, and their number."""
        found: list[tuple[ChaosMember, int]] = []

        def is_found() -> bool:
            held = self._in_flight()
            free = [(each, held.get(each.name, 0)) for each in self._free_members() if may_be(each)]
            found[:] = [(each, count) for each, count in free if count]
            return bool(found)

        yield Until("a member that may be chosen holds records", is_found)
        member, count = found[step.target % len(found)]
        self._members.busy.add(member)
        return member, count

    def _something_to_lose(self) -> Generator[Until | DoneTo, None, int]:
        """Waits until records are in flight; returns their number."""
        seen = 0

        def in_flight() -> bool:
            nonlocal seen
            seen = sum(self._in_flight().values())
            return seen > 0

        yield Until("records are in flight", in_flight)
        return seen

    def _in_flight(self) -> Counter[str]:
        return sum((mesh.in_flight() for mesh in self._meshes), Counter())

    def _gone(self, member: ChaosMember) -> None:
        self._members.busy.discard(member)
        if member in self._members.running:
            self._members.running.remove(member)


def _rest(seconds: float) -> Until:
    due = time.monotonic() + seconds
    return Until("", lambda: time.monotonic() >= due, seconds + 60)


_COURSES: Final[dict[Fault, Callable[[Faults, Step], Course]]] = {
    Fault.KILL_MEMBER: Faults.kill_member,
    Fault.FREEZE_MEMBER: Faults.freeze_member,
    Fault.CLOSE_MEMBER: Faults.close_member,
    Fault.JOIN_MEMBER: Faults.join_member,
    Fault.REPLACE_ALL_MEMBERS: Faults.replace_all_members,
    Fault.KILL_MESH: Faults.kill_mesh,
    Fault.FREEZE_MESH: Faults.freeze_mesh,
    Fault.RESTART_MESH: Faults.restart_mesh,
    Fault.KILL_BROKER: Faults.kill_broker,
    Fault.FREEZE_BROKER: Faults.freeze_broker,
    Fault.RESTART_BROKER: Faults.restart_broker,
    Fault.CUT_CLIENTS: Faults.cut_clients,
    Fault.SLOW_CLIENTS: Faults.slow_clients,
    Fault.CUT_UPSTREAM: Faults.cut_upstream,
    Fault.SLOW_UPSTREAM: Faults.slow_upstream,
    Fault.GROW_TOPIC: Faults.grow_topic,
    Fault.LOSE_LEADERS: Faults.lose_leaders,
    Fault.RECREATE_TOPIC: Faults.recreate_topic,
}
