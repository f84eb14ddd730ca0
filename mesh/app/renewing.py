"""The clients of librdkafka that are replaced when the files of their properties have changed: those of groups, and the
number of attempts that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from mesh.pool.common.ids import GroupId
from mesh.records.spans import ClusterName
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.tasks import LONGEST_REST, SHORTEST_REST, OwnedTask, TaskName, begin, is_order, reports
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metric_definitions import UPSTREAM_CLIENT_FAILURES, MetricSample
from mesh.upstream.renewed import FAILURES

log = get_logger(__name__)


class GroupRenewal:
    """The renewal of the groups of all pools: one group of a cluster after the other, each cluster by itself.
    librdkafka cannot exchange the certificate of a client, so each group gets another client. pools: returns all pools.
    grace: returns the seconds that members have to commit."""

    def __init__(self, pools: Callable[[], Sequence[PoolRuntime]], grace: Callable[[], float]) -> None:
        self._pools = pools
        self._grace = grace
        self._changed: dict[ClusterName, asyncio.Event] = {}
        """Set for a cluster whose files have changed since its groups began to join again."""
        self._tasks: dict[ClusterName, asyncio.Task[None]] = {}

    def soon(self, cluster: ClusterName) -> None:
        """Lets all groups join this cluster again."""
        self._changed.setdefault(cluster, asyncio.Event()).set()
        if cluster not in self._tasks:
            task = OwnedTask(TaskName.GROUP_RENEWAL, cluster=cluster)
            self._tasks[cluster] = begin(task, partial(self._renew, cluster))

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _renew(self, cluster: ClusterName) -> None:
        """Lets groups join a cluster again until all of them have. Those that failed try again after a rest."""
        changed, left, rest = self._changed[cluster], list[_Membership](), SHORTEST_REST
        try:
            while left or changed.is_set():
                if changed.is_set():
                    changed.clear()
                    left = [_Membership(pool, group, cluster) for pool in self._pools() for group in pool.groups]
                    rest = SHORTEST_REST
                left = [each for each in left if not await self._has_joined(each, rest)]
                if left:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), rest)
                    rest = min(2 * rest, LONGEST_REST)
            log.info("upstream groups use changed files", cluster=cluster)
        finally:
            for each in left:
                reports().forget(each.task)
            del self._tasks[cluster]

    async def _has_joined(self, membership: _Membership, rest: float) -> bool:
        """Lets a group join again, and returns whether it has. rest: seconds until another attempt."""
        pool, task = membership.pool, membership.task
        if pool not in self._pools():  # its virtual cluster has ended, or started again
            reports().forget(task)
            return True
        try:
            await pool.renew(membership.group, membership.cluster, self._grace())
        except BaseException as problem:
            if is_order(problem):
                raise
            reports().failed(task, problem, rest)
            return False
        reports().works(task)
        return True


@dataclass(frozen=True, slots=True)
class _Membership:
    """The membership of the group of a pool in a cluster."""

    pool: PoolRuntime
    group: GroupId
    cluster: ClusterName

    @property
    def task(self) -> OwnedTask:
        return OwnedTask(TaskName.GROUP_RENEWAL, self.pool.name, self.cluster, self.group)


def samples() -> Iterator[MetricSample]:
    """The samples of clients that could not be made."""
    for client, count in tuple(FAILURES.items()):
        yield MetricSample(UPSTREAM_CLIENT_FAILURES, (client,), count)
