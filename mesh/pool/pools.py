"""The pools of one virtual cluster. A pool is made when a client first names its group, and ends after its last
member."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Final

from mesh.apis.answers import Ticket
from mesh.memory import MemoryBudget
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.group_configs import KeptShareGroups, settings_with
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId
from mesh.pool.common.outbox import CurrentShareSettings, Outbox, PoolParts
from mesh.pool.common.settings import PoolSettings, ShareSettings
from mesh.pool.common.sharing import Sharing
from mesh.pool.common.timers import DeadlineQueue, Timers
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.groups.member_index import MemberIndex
from mesh.pool.intake.drain import DrainState
from mesh.pool.pool import Pool
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch
from mesh.pool.state.slots import Slots
from mesh.wire.errors import ErrorCode

SEARCH_EVERY: Final = 0.1
"""Seconds between two searches for an unused pool to close."""


class PoolStep:
    """A context manager for one step of a pool. It is a class because a generator would cost twice as much, and every
    request is a step."""

    __slots__ = ("_now", "_pool", "_pools")

    def __init__(self, pools: Pools, pool: Pool, now: float) -> None:
        self._pools = pools
        self._pool = pool
        self._now = now

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _type: type[BaseException] | None, problem: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if problem is not None and not isinstance(problem, Exception):
            return False
        self._pools.stepped(self._pool, self._now, problem)
        return True


class Pools:
    """The pools of one virtual cluster, one for each group. violations: the number of pools that were closed because an
    invariant was violated."""

    def __init__(
        self,
        topics: VirtualTopics,
        slots: Slots[Member],
        clients: MemberIndex,
        rules: GroupRules,
        settings: PoolSettings,
        memory: MemoryBudget,
        parked: dict[Ticket, Fetch],
        outbox: Outbox,
        kept: KeptShareGroups,
    ) -> None:
        self._topics = topics
        self._slots = slots
        self._clients = clients
        self.rules = rules
        self.settings = settings
        self._memory = memory
        self._parked = parked
        self._outbox = outbox
        self.by_group: dict[GroupId, Pool] = {}
        self.kept = kept
        self.violations = 0
        self._looked = -math.inf
        """The time of the last search for an unused pool."""
        self.is_stopping = False
        self.drained: set[GroupId] = set()
        """Groups that get no records in this process, with or without a pool."""
        self.deadlines: DeadlineQueue[Pool] = DeadlineQueue()

    def tick(self, now: float) -> None:
        """Carries out the timers that are due."""
        while (pool := self.deadlines.take(now)) is not None:
            with self.step(pool, now):
                while not pool.is_closed and pool.fire_next(now):
                    pass

    def refusal(self, group: GroupId, now: float) -> ErrorCode:
        """Returns the error with which a consumer may not use this group; NONE if it may."""
        error = self.rules.refusal(group)
        if error is not ErrorCode.NONE:
            return error
        if not self._has_room_for(group, now):
            self._outbox.report("group refused: too many pools", {"group": group}, "warning")
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def of_group(self, group: GroupId, now: float) -> Pool:
        """Returns the pool of a group, and makes one if there is none."""
        pool = self.by_group.get(group)
        if pool is None:
            pool = self.by_group[group] = Pool(
                PoolParts(
                    group,
                    self.settings,
                    Timers(),
                    self._outbox.of_group(group),
                    CurrentShareSettings(self.share_settings(group)),
                ),
                self.rules.mode(group),
                self._topics,
                self._slots,
                self._clients,
                self._memory,
                self._parked,
                now,
            )
            if self.is_stopping or group in self.drained:
                pool.draining.start_drained()
            self.deadlines.note(pool)
        return pool

    def share_settings(self, group: GroupId) -> ShareSettings:
        """Returns the settings for share members of a group, with the group's current overrides."""
        return settings_with(self.settings.share, self.kept.overrides(group))

    def of_member(self, member: Member) -> Pool | None:
        """Returns the pool of a member; None if the member is gone."""
        pool = self.by_group.get(member.group)
        if pool is None or (pool.members.by_id.get(member.id) is not member and member not in pool.members.groupless):
            return None
        return pool

    def new_groupless(self, client: ClientIdentity, group: GroupId | None, now: float) -> Member | None:
        """Adds a groupless member to a group. group: None if consumers without a group are not admitted. Returns None
        if the member is not admitted, or there is no room.

        Raises SlotsExhausted.
        """
        if group is None or self.rules.refusal(group) is not ErrorCode.NONE or not self._has_room_for(group, now):
            return None
        pool = self.of_group(group, now)
        if not self.has_room_for_groupless(pool):
            return None
        member = pool.members.add_groupless(client, now)
        self.deadlines.note(pool)
        return member

    def has_room_for_groupless(self, pool: Pool) -> bool:
        return len(pool.members.groupless) < self.settings.max_members and self._slots.has_room

    def drain(self, group: GroupId, grace: float, now: float) -> None:
        """Stops delivering to this group, until `serve_again`. Its members have `grace` seconds to commit."""
        self.drained.add(group)
        self._begin_draining([self.by_group[group]] if group in self.by_group else [], grace, now)

    def drain_all(self, grace: float, now: float) -> None:
        """Stops delivering to all groups, including those that are named later. Members have `grace` seconds to
        commit."""
        self.is_stopping = True
        self._begin_draining(list(self.by_group.values()), grace, now)

    def serve_again(self, group: GroupId, now: float) -> None:
        """Undoes `drain`."""
        self.drained.discard(group)
        pool = self.by_group.get(group)
        if pool is not None and not self.is_stopping:
            with self.step(pool, now):
                pool.draining.cancel(now)

    def drain_state(self, group: GroupId) -> tuple[DrainState, int]:
        """Returns the state of a group's drain, and the number of offsets that its members hold."""
        pool = self.by_group.get(group)
        if pool is not None:
            return pool.draining.drain_state, pool.draining.held
        return DrainState.DRAINED if group in self.drained else DrainState.SERVING, 0

    def change_rules(self, rules: GroupRules, grace: float, now: float) -> None:
        """Applies changed rules. Pools of groups that are no longer admitted are drained and end. Their members are
        refused when they come again."""
        self.rules = rules
        for pool in list(self.by_group.values()):
            is_refused = rules.refusal(pool.group) is not ErrorCode.NONE
            with self.step(pool, now):
                pool.members.acknowledge = rules.mode(pool.group)
                if is_refused:
                    pool.is_expelled = True
                    pool.draining.begin(grace, now)
                elif pool.is_expelled:
                    pool.is_expelled = False
                    if pool.group not in self.drained:
                        pool.draining.cancel(now)

    def change_sharing(self, sharing: Sharing, now: float) -> None:
        """Applies changed weights, limits and priorities."""
        if sharing == self.settings.sharing:
            return
        self.settings = replace(self.settings, sharing=sharing)
        for pool in list(self.by_group.values()):
            with self.step(pool, now):
                pool.serving.change_sharing(sharing, now)

    @property
    def are_drained(self) -> bool:
        """True if no pool has anything left to do upstream."""
        return all(pool.draining.drain_state is DrainState.DRAINED for pool in self.by_group.values())

    def _begin_draining(self, pools: Iterable[Pool], grace: float, now: float) -> None:
        for pool in pools:
            with self.step(pool, now):
                pool.draining.begin(grace, now)

    def step(self, pool: Pool, now: float) -> PoolStep:
        """Makes a step of a pool, for a `with` statement. If it fails, for example by a violated invariant, the state
        of the pool cannot be trusted. Then the pool is closed with an error, and its members come back to a new one.
        Other pools go on."""
        return PoolStep(self, pool, now)

    def stepped(self, pool: Pool, now: float, problem: Exception | None) -> None:
        """Finishes a step of a pool: called at the end of its `with` statement. problem: the exception that ended it,
        if any."""
        if problem is None:
            try:
                if not pool.is_closed:
                    pool.finish(now)
            except Exception as contradiction:  # noqa: BLE001 - reported with its traceback, and its pool is closed
                problem = contradiction
        if problem is not None:
            self._failed(pool, problem)
        if pool.is_closed:
            self._forget(pool)
        else:
            self.deadlines.note(pool)

    def _failed(self, pool: Pool, problem: Exception) -> None:
        self.violations += 1
        trace = "".join(traceback.format_exception(problem))
        fields = {"group": pool.group, "reason": repr(problem), "traceback": trace}
        self._outbox.report("pool closed: invariant violated", fields, "error")
        if not pool.is_closed:
            pool.close_after_violation()

    def _has_room_for(self, group: GroupId, now: float) -> bool:
        """Returns whether the group has a pool or may get one. If there are too many pools, one without Fetches is
        closed. Otherwise a client that may name groups could occupy all pools by staying connected."""
        if group in self.by_group or len(self.by_group) < self.rules.maximum:
            return True
        if now < self._looked + SEARCH_EVERY:
            return False
        self._looked = now
        unused = max(self.by_group.values(), key=lambda pool: pool.unused_for(now), default=None)
        if unused is None or unused.unused_for(now) < self.settings.unused_after:
            return False
        self._outbox.report("unused pool closed", {"group": unused.group}, "warning")
        with self.step(unused, now):
            unused.end(now)
        return True

    def _forget(self, pool: Pool) -> None:
        self.deadlines.forget(pool)
        if self.by_group.get(pool.group) is pool:
            del self.by_group[pool.group]
