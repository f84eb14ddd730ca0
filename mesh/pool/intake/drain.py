"""How a pool stops: no record is given any more, members commit what they hold, the upstream groups are left.

Its members stay: their Fetches find nothing, their commits are taken. When nothing is held any more, or the time that
they were given is over, the pool commits and leaves its upstream groups, so that another process gets its partitions.
What is held then is released; it is delivered again by whoever reads on, and the commits of it are refused.
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
    """What a pool does now."""

    SERVING = "serving"
    DRAINING = "draining"
    DRAINED = "drained"


class PoolDrain:
    """Leaves all upstream clusters of a pool. members: all that live."""

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
        """Offsets that members hold."""
        return sum(member.in_flight for member in self._members)

    def begin(self, grace: float, now: float) -> None:
        """Give nothing any more; members have `grace` seconds to commit what they hold."""
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
        self._outbox.report("a pool is being drained", fields)

    def begin_away(self) -> None:
        """A pool that begins while its group is drained here: it does not even join upstream."""
        self.drain_state = DrainState.DRAINED
        self._serving.distribution.is_stopped = self._backpressure.is_stopped = True
        self._intake.withdraw()

    def go_on(self, now: float) -> None:
        """At the end of each step: leave as soon as there is nothing to wait for."""
        if self.drain_state is not DrainState.DRAINING or not self._commits.is_idle or self.held:
            return
        if not any(partition.dead_lettering for partition in self._serving.partitions.values()):
            self._leave(now)

    def cancel(self, now: float) -> None:
        """Serve again."""
        if self.drain_state is DrainState.SERVING:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self.drain_state = DrainState.SERVING
        distribution = self._serving.distribution
        distribution.is_stopped = self._backpressure.is_stopped = False
        self._intake.come_back()
        for partition in self._serving.partitions.values():
            distribution.touched.add(partition)
            if partition.is_active:
                self._serving.activate(partition, now)
        self._outbox.report("a pool is not drained any more")

    def _leave(self, now: float) -> None:
        if self.drain_state is not DrainState.DRAINING:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self.drain_state = DrainState.DRAINED
        fenced = self.held
        self._outbox.put(LeaveUpstream(self._group, self._commits.unstored(self._serving.partitions.values())))
        self._intake.withdraw()
        self._commits.forget()
        self._backpressure.leave()
        level = "warning" if fenced else "info"
        self._outbox.report("a pool is drained", {"in_flight": fenced}, level)
