"""The drain of a pool: nothing more is delivered, members commit the records that they hold, and the pool leaves its
upstream groups.

Its members stay: their Fetches find no records, and their commits are accepted. When they hold no records, or their
time is over, the pool commits and leaves its upstream groups, so that another process gets its partitions. Records that
are still held are released: the next owner delivers them again, and commits of them are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from mesh.pool.common.effects import LeaveUpstream
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.timers import Timer
from mesh.pool.fetch.serving import Serving
from mesh.pool.intake.backpressure import Backpressure
from mesh.pool.intake.intake import Intake
from mesh.pool.offsets.commits import Commits
from mesh.pool.state.member import Member


class DrainState(Enum):
    """The state of a drain."""

    SERVING = "serving"
    DRAINING = "draining"
    DRAINED = "drained"


class PoolDrain:
    """Leaves all upstream clusters of a pool. members: the living members."""

    def __init__(
        self,
        parts: PoolParts,
        serving: Serving,
        commits: Commits,
        intake: Intake,
        backpressure: Backpressure,
        members: Iterable[Member],
    ) -> None:
        self._group = parts.group
        self._timers = parts.timers
        self._serving = serving
        self._commits = commits
        self._intake = intake
        self._backpressure = backpressure
        self._members = members
        self._outbox = parts.outbox
        self._deadline: Timer | None = None
        self.drain_state = DrainState.SERVING

    @property
    def held(self) -> int:
        """The number of offsets that members hold."""
        return sum(member.in_flight for member in self._members)

    def begin(self, grace: float, now: float) -> None:
        """Stops delivering. Members have `grace` seconds to commit the records that they hold."""
        if self.drain_state is not DrainState.SERVING:
            return
        self.drain_state = DrainState.DRAINING
        distribution = self._serving.distribution
        distribution.is_stopped = self._backpressure.is_stopped = True
        for partition in self._serving.partitions.values():
            distribution.suspend(partition)
        for fetch in self._serving.fetches:
            if fetch.has_records:
                self._serving.answer(fetch, now)
        self._deadline = self._timers.at(now + grace, self._leave)
        fields = {"in_flight": self.held, "deadline": grace}
        self._outbox.report("pool draining", fields)

    def start_drained(self) -> None:
        """Makes a new pool drained from the start, because its group is drained in this process. It does not even join
        upstream."""
        self.drain_state = DrainState.DRAINED
        self._serving.distribution.is_stopped = self._backpressure.is_stopped = True
        self._intake.leave_all()

    def go_on(self, now: float) -> None:
        """Leaves the groups if nothing is left to wait for. Called at the end of each step."""
        if self.drain_state is not DrainState.DRAINING or not self._commits.is_idle or self.held:
            return
        if not any(partition.dead_lettering for partition in self._serving.partitions.values()):
            self._leave(now)

    def cancel(self, now: float) -> None:
        """Cancels the drain, and serves the group again."""
        if self.drain_state is DrainState.SERVING:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self.drain_state = DrainState.SERVING
        distribution = self._serving.distribution
        distribution.is_stopped = self._backpressure.is_stopped = False
        self._intake.rejoin_all()
        for partition in self._serving.partitions.values():
            distribution.touched.add(partition)
            if partition.is_active:
                self._serving.activate(partition, now)
        self._outbox.report("pool drain cancelled")

    def _leave(self, now: float) -> None:
        if self.drain_state is not DrainState.DRAINING:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self.drain_state = DrainState.DRAINED
        fenced = self.held
        self._outbox.put(LeaveUpstream(self._group, self._commits.unstored(self._serving.partitions.values())))
        self._intake.leave_all()
        self._commits.forget()
        self._backpressure.leave()
        level = "warning" if fenced else "info"
        self._outbox.report("pool drained", {"in_flight": fenced}, level)
