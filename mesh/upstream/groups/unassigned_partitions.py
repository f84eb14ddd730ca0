"""Looks for partitions without an owner, after a static member has come back to its group.

A coordinator gives a static member that comes back within its session its old assignment, and does not tell it that it
leads the group (KIP-345). If a topic has grown meanwhile, its new partitions stay unassigned, because librdkafka
rejoins only when it sees a topic grow. So a static member asks for all assignments once after its return, and rejoins
if a partition has no owner.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import Final

import structlog

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.groups.descriptions import DescriptionUnavailable, Groups, Partitions

log = structlog.get_logger(__name__)

RETRY_DELAY: Final = 2.0
MAX_RETRY_DELAY: Final = 60.0
"""The most seconds from a failed answer to the next question; the pause doubles. After a rejoin the pause grows too, so
that the leader of the group has time to assign."""


class UnassignedPartitions:
    """The search for partitions without an owner. It runs on the consumer's thread, and never blocks. is_static: False
    for dynamic members, which need not ask: each join of one assigns everything again."""

    def __init__(self, cluster: ClusterName, groups: Groups, group: str, is_static: bool) -> None:
        self._cluster = cluster
        self._groups = groups
        self._group = group
        self._is_static = is_static
        self._answer: Future[Partitions] | None = None
        self._ask_at: float | None = None
        """The time of the next question; None if none is due."""
        self._retry_delay = RETRY_DELAY
        self._rejoins = 0
        self._is_known = True

    def begin(self) -> None:
        """Starts over for a new consumer that joins the group."""
        self._is_known = not self._is_static
        self._rejoins, self._retry_delay, self._answer, self._ask_at = 0, RETRY_DELAY, None, None

    def assigned(self, now: float) -> None:
        """Notes that the assigned partitions are being read."""
        if not self._is_known:
            self._answer, self._ask_at = None, now + RETRY_DELAY * self._rejoins

    def check_for_rejoin(self, topics: Collection[TopicName], ours: Collection[UpstreamPartition], now: float) -> bool:
        """Returns whether to rejoin because some partition has no owner; True once for each answer."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            return self._take(answer, now)
        if self._answer is None and self._ask_at is not None and now >= self._ask_at and topics:
            mine = frozenset((each.topic, each.partition) for each in ours)
            self._answer = self._groups.unowned_partitions(self._group, topics, mine)
        return False

    def _take(self, answer: Future[Partitions], now: float) -> bool:
        try:
            unowned_partitions = answer.result()
        except DescriptionUnavailable as problem:
            self._ask_at, self._retry_delay = now + self._retry_delay, min(2 * self._retry_delay, MAX_RETRY_DELAY)
            log.debug("partition owners unknown", cluster=self._cluster, reason=str(problem))
            return False
        self._ask_at = None
        if not unowned_partitions or self._rejoins >= self._groups.most_rejoins:
            self._is_known = True
            return False
        self._rejoins += 1
        log.info(
            "rejoining upstream group: partitions without a member",
            cluster=self._cluster,
            group=self._group,
            partitions=len(unowned_partitions),
        )
        return True
