"""The moves of one virtual cluster: read from the store at the start, then begun and ended by operators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from mesh.routing.concatenated import Concatenations
from mesh.routing.moves.checks import (
    NotMoved,
    check_configs,
    check_groups,
    check_starts,
    check_transactions,
    configs_of_target,
)
from mesh.routing.moves.copying import NotCopied
from mesh.routing.moves.machine import Phase, WrongPhase
from mesh.routing.moves.move import Location, Move, Side, document_of, move_of
from mesh.routing.moves.offsets import offset_of
from mesh.routing.moves.producers import producer_ids
from mesh.routing.union import Owner
from mesh.runtime.entity_router.groups.coordinators import GroupCoordinators
from mesh.runtime.entity_router.leaves import Leaves, RouterLeaf
from mesh.runtime.entity_router.moves.copier import Copier
from mesh.runtime.entity_router.moves.gate import WriteGate
from mesh.runtime.entity_router.moves.group_offsets import GroupCarrier
from mesh.runtime.entity_router.moves.mover import KIND, Mover, MoveServices, now_ms
from mesh.runtime.entity_router.moves.side import SideMissing, SideRefused, SideUnavailable, TopicSide
from mesh.tasks import OwnedTask, TaskName, keep
from mesh.telemetry.logs import get_logger
from mesh.upstream.store.documents import StoreError, StoreUnavailable
from mesh.upstream.store.store import Store
from mesh.wire.apis import ApiKey

log = get_logger(__name__)

BETWEEN_READS: Final = 0.1
"""Seconds until a store that has not been read yet is tried again."""
DEFAULT_REPLICAS: Final = -1
"""Stands for the cluster's default."""


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A move as an operator requests it. to: the routes to the cluster. replicas: the number of replicas of each
    partition there."""

    topic: str
    to: str
    replicas: int = DEFAULT_REPLICAS


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a move. records: the number of records, counted as offsets. filled: the number of offsets before the
    first records. groups: the groups with offsets of the topic."""

    move: Move
    configs: Mapping[str, str]
    records: int
    filled: int
    groups: Sequence[str]


class Moves:
    """The moves of one virtual cluster. is_free: returns True if there are no interceptors on a path of routes.
    changed: called with all moves when clients are to be led to other places."""

    def __init__(
        self,
        virtual_cluster: str,
        store: Store,
        leaves: Leaves,
        gate: WriteGate,
        is_free: Callable[[str], bool],
        changed: Callable[[Sequence[Move]], None],
        hold: float,
        timeout: Callable[[], float],
    ) -> None:
        """hold: seconds that clients may be held at a cut. timeout: returns the seconds that a cluster has for a
        response."""
        self.name: Final = virtual_cluster
        self._leaves: Final = leaves
        self._store: Final = store
        self.gate: Final = gate
        self._is_free: Final = is_free
        self._changed: Final = changed
        self._timeout: Final = timeout
        self._movers: dict[str, Mover] = {}
        self._beginning: set[str] = set()
        self._is_closed = False
        self._services: Final = MoveServices(
            virtual_cluster, store, gate, self._side, self._producers, self._move_changed, self._learnt, hold, timeout
        )
        self._loading = keep(OwnedTask(TaskName.MOVES, virtual_cluster), self._load)

    @property
    def all(self) -> list[Move]:
        return [mover.move for mover in self._movers.values()]

    @property
    def movers(self) -> list[Mover]:
        return [self._movers[topic] for topic in sorted(self._movers)]

    def close(self) -> None:
        self._is_closed = True
        self._loading.cancel()
        for mover in self._movers.values():
            mover.close()

    def offset_of(self, topic: str, group: str, partition: int, stored: int) -> int:
        """The offset of a group for a partition. stored: the offset in the cluster of the topic; -1 for none."""
        mover = self._movers.get(topic)
        return stored if mover is None else offset_of(mover.move.unaccepted_offsets, group, partition, stored)

    # Operators

    async def plan(self, wanted: MoveRequest) -> Plan:
        """Returns the plan of a move, after checks. Raises NotMoved, WrongPhase, SideUnavailable."""
        self._check_known()
        mover = self._movers.get(wanted.topic)
        if mover is not None:
            return await self._plan_again(mover, wanted)
        source, target = self._sides_of(wanted)
        try:
            return await self._plan_new(wanted, source, target)
        finally:
            source.close()
            target.close()

    async def begin(self, wanted: MoveRequest) -> Plan:
        """Begins a move, and returns its plan. Raises NotMoved, WrongPhase, SideUnavailable, SideRefused,
        StoreError."""
        if wanted.topic in self._beginning:
            raise WrongPhase("it is being begun already")
        self._beginning.add(wanted.topic)
        try:
            plan = await self.plan(wanted)
            await self._store.put(KIND, self.name, wanted.topic, document_of(plan.move))
            if (before := self._movers.pop(wanted.topic, None)) is not None:
                before.close()
            mover = self._movers[wanted.topic] = Mover(self._services, plan.move)
            self._notify()
            if not plan.move.has_moved:
                await self._create(plan)
            if not self._is_closed:  # otherwise the next process reads the move from the store
                mover.begin()
            return plan
        finally:
            self._beginning.discard(wanted.topic)

    def cancel(self, topic: str) -> Move:
        """Ends the move of a topic. The topic stays where it is. Raises WrongPhase."""
        if topic in self._beginning:  # the request to create its topic may be in flight, and may succeed later
            raise WrongPhase("it is being begun: try again in a moment")
        if (mover := self._movers.get(topic)) is None:
            raise WrongPhase("it is not being moved")
        move = mover.move
        mover.cancel()
        return move

    # Checks before a move

    async def _plan_new(self, wanted: MoveRequest, source: TopicSide, target: TopicSide) -> Plan:
        try:
            known = await source.layout()
        except SideMissing as problem:
            raise NotMoved("unknown_topic", str(problem)) from problem
        await self._check_free(target)
        configs = await source.configs()
        check_configs(configs)
        starts, ends = await source.starts(), await source.high_watermarks()
        check_starts(starts)
        check_transactions(await _open_transactions(source))
        width = len(known.leaders)
        consuming = await GroupCarrier(source, target, GroupCoordinators(self._timeout), {}).consuming(width)
        check_groups(consuming)
        home, away = Location(source.leaf.path, source.topic), Location(target.leaf.path, target.topic)
        move = Move(wanted.topic, known.id, width, home, away, begun=now_ms(), replicas=wanted.replicas)
        return Plan(move, configs_of_target(configs), sum(ends) - sum(starts), sum(starts), sorted(consuming))

    async def _plan_again(self, mover: Mover, wanted: MoveRequest) -> Plan:
        """The plan for a topic that was moved before. It goes back to its other side, which has everything up to the
        last cut."""
        move = mover.move
        if mover.machine.phase is not Phase.RESTING or move.is_copying:
            raise WrongPhase("it is being moved already")
        if not move.has_moved:
            raise WrongPhase(f"it was given up ({move.problem}): cancel it, which deletes the copy, and start again")
        if wanted.to != move.target.path:
            raise NotMoved("other_side", f"it can only go back to {move.target.path}, which has the earlier records")
        source, target = self._side(*move.source), self._side(*move.target)
        if source is None or target is None:
            raise NotMoved("unknown_route", "a route of the move no longer exists")
        try:
            copier = Copier(source, target, move.width, lambda: _unchanged)
            await copier.check_target()
            if any(is_now < was for is_now, was in zip(copier.positions, move.ends, strict=True)):
                raise NotMoved("diverged", f"{target.leaf.path} has another topic now")
            check_transactions(await _open_transactions(source))
            coordinators = GroupCoordinators(self._timeout)
            carrier = GroupCarrier(source, target, coordinators, move.unaccepted_offsets)
            consuming = await carrier.consuming(move.width)
            check_groups(consuming)
        except SideMissing as problem:
            raise NotMoved("unknown_topic", str(problem)) from problem
        except NotCopied as problem:
            raise NotMoved(problem.kind, str(problem)) from problem
        finally:
            source.close()
            target.close()
        again = replace(move, is_copying=True, begun=now_ms(), problem="")
        return Plan(again, {}, copier.left or 0, 0, sorted(consuming))

    def _sides_of(self, wanted: MoveRequest) -> tuple[TopicSide, TopicSide]:
        names = self._leaves.names
        if names.concatenated.named(wanted.topic) is not None:
            raise NotMoved("concatenated", "a topic of several clusters cannot be moved")
        owner = names.owner(wanted.topic)
        if owner is None or wanted.topic.startswith("__"):
            raise NotMoved("unknown_topic", "clients have no such topic, or it is one of Kafka's own")
        source = TopicSide(self._leaves.by_number[owner.leaf], owner.topic, self._timeout)
        target = self._side(wanted.to, owner.topic)
        if target is None:
            allowed = ", ".join(leaf.path for leaf in self._leaves)
            raise NotMoved("unknown_route", f"{wanted.to} is none of the routes to clusters: {allowed}")
        if target.leaf is source.leaf:
            raise NotMoved("same_route", f"it is at {wanted.to} already")
        if self._is_taken(Owner(target.leaf.number, target.topic), names.concatenated):
            raise NotMoved("target_exists", f"{target.topic} at {wanted.to} is a part or a side of another topic")
        for side in (source, target):
            if not self._is_free(side.leaf.path):
                raise NotMoved("interceptors", f"interceptors stand on the way to {side.leaf.path}")
        return source, target

    def _is_taken(self, owner: Owner, topics: Concatenations) -> bool:
        sides = {(location.path, location.topic) for move in self.all for location in (move.home, move.away)}
        return topics.part(*owner) is not None or (self._leaves.by_number[owner.leaf].path, owner.topic) in sides

    async def _check_free(self, target: TopicSide) -> None:
        if await target.exists():
            raise NotMoved("target_exists", f"{target.leaf.path} has a topic {target.topic} already")

    async def _create(self, plan: Plan) -> None:
        """Creates the target, so that the operator learns a refusal at once. If the cluster does not answer, the mover
        tries again."""
        move = plan.move
        target = self._side(*move.away)
        assert target is not None, "as was checked"
        try:
            await target.create(move.width, plan.configs, move.replicas)
        except SideRefused:
            self._movers.pop(move.topic)
            self._notify()
            await self._store.put(KIND, self.name, move.topic, None)
            raise
        except SideUnavailable:
            pass
        finally:
            target.close()

    # Called by movers

    def _side(self, path: str, topic: str) -> TopicSide | None:
        leaf = self._leaf(path)
        return None if leaf is None else TopicSide(leaf, topic, self._timeout)

    def _leaf(self, path: str) -> RouterLeaf | None:
        return next((leaf for leaf in self._leaves if leaf.path == path), None)

    def _producers(self, source: TopicSide, target: TopicSide) -> Callable[[int], int]:
        home = self._leaves.default
        if home.tag is None or source.leaf.tag is None:
            raise SideUnavailable("a cluster has not said its id yet")
        of_source = None if source.leaf is home else source.leaf.tag
        return producer_ids(home.tag, of_source, to_home=target.leaf is home)

    def _learnt(self, side: TopicSide, id: UUID) -> None:
        self._leaves.part_ids.learn(side.leaf.number, side.topic, id)

    def _move_changed(self, topic: str, move: Move | None) -> None:
        if move is None and (mover := self._movers.pop(topic, None)) is not None:
            mover.close()
        self._notify()

    def _notify(self) -> None:
        moves = self.all
        self.gate.has_unaccepted_offsets = any(move.unaccepted_offsets for move in moves)
        self._changed(moves)

    # The start

    def _check_known(self) -> None:
        if not self.gate.is_known:
            raise StoreUnavailable("the store has not been read yet")

    async def _load(self) -> None:
        """Reads the moves, and begins them. Then it waits until it is cancelled."""
        is_logged = False
        while True:
            try:
                found = [self._read(topic) for topic in self._store.groups(KIND, self.name)]
                break
            except StoreError as problem:
                if not is_logged and not isinstance(problem, StoreUnavailable):
                    log.error("moves cannot be read", virtual_cluster=self.name, reason=str(problem))
                    is_logged = True
                await asyncio.sleep(BETWEEN_READS)
        self._movers = {move.topic: Mover(self._services, move) for move in found}
        if found:
            self._notify()
        self.gate.know()
        for mover in self.movers:
            mover.begin()
        await asyncio.Event().wait()

    def _read(self, topic: str) -> Move:
        document: Mapping[str, Any] | None = self._store.get(KIND, self.name, topic)
        assert document is not None, "it is listed"
        try:
            return move_of(topic, document)
        except (ValueError, KeyError, TypeError) as problem:
            raise StoreError(f"the move of {topic} cannot be read: {problem!r}") from None


def _unchanged(producer_id: int) -> int:
    return producer_id


async def _open_transactions(source: TopicSide) -> list[int]:
    """Returns the producer ids of open transactions. Raises SideUnavailable, SideMissing."""
    leaders = (await source.layout()).leaders
    found: list[int] = []
    for leader in set(leaders.values()):
        indexes = [partition for partition, each in leaders.items() if each == leader]
        request = {"topics": [{"name": source.topic, "partition_indexes": indexes}]}
        answer = await source.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request, leader)
        for partition in answer["topics"][0]["partitions"]:
            found += [
                each["producer_id"] for each in partition["active_producers"] if each["current_txn_start_offset"] >= 0
            ]
    return found


__all__ = ["DEFAULT_REPLICAS", "MoveRequest", "Moves", "Plan", "Side", "WrongPhase"]
