"""The clients of librdkafka that are replaced when the files of their properties have changed: those of groups, and the
number of attempts that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from mesh.records.spans import ClusterName
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.tasks import GuardedSteps, OwnedTask, TaskName, begin, reports
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metric_definitions import UPSTREAM_CLIENT_FAILURES, MetricSample
from mesh.upstream.renewed import FAILURES

log = get_logger(__name__)


class GroupRenewal:
    """The renewal of the groups of all pools, one group after the other. librdkafka cannot exchange the certificate of
    a client, so each group gets another client. pools: returns all pools. grace: returns the seconds that members have
    to commit."""

    def __init__(self, pools: Callable[[], Sequence[PoolRuntime]], grace: Callable[[], float]) -> None:
        self._pools = pools
        self._grace = grace
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def soon(self, cluster: ClusterName) -> None:
        """Lets all groups join this cluster again."""
        task = begin(_renewal_of(cluster), partial(self._renew, cluster))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _renew(self, cluster: ClusterName) -> None:
        async with self._turn:
            guard = GuardedSteps(reports())  # a failure in one pool keeps no other one from its turn
            for pool in self._pools():
                await guard.attempt(_renewal_of(cluster), partial(pool.renew, cluster, self._grace()))
            if not guard.has_failed:
                log.info("upstream groups use changed files", cluster=cluster)


def _renewal_of(cluster: ClusterName) -> OwnedTask:
    return OwnedTask(TaskName.GROUP_RENEWAL, cluster=cluster)


def samples() -> Iterator[MetricSample]:
    """The samples of clients that could not be made."""
    for client, count in tuple(FAILURES.items()):
        yield MetricSample(UPSTREAM_CLIENT_FAILURES, (client,), count)
