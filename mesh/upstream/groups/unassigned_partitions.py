"""Whether every partition of the topics is somebody's, after a static member has come back to its group.

A coordinator gives a static member that comes back within its session what it had, and does not tell it that it leads
the group (KIP-345). So if a topic has grown meanwhile, nobody divides its partitions anew: librdkafka joins again only
when it sees a topic grow. Who has come back asks who has what, once, and joins again for what is nobody's.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import Final

import structlog

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.groups.descriptions import Groups, Partitions, Undescribed

log = structlog.get_logger(__name__)

REST: Final = 2.0
MOST_REST: Final = 60.0
"""Seconds from an answer that says nothing to the next question; they double from one to the other. After joining again
the next question comes later each time, too, so that the leader of the group has had time to divide."""


class UnassignedPartitions:
    """Everything runs on the consumer's thread, and waits for nothing. is_static: dynamic members need not ask, since a
    group is divided anew whenever one of them joins."""

    def __init__(self, cluster: ClusterName, groups: Groups, group: str, is_static: bool) -> None:
        self._cluster = cluster
        self._groups = groups
        self._group = group
        self._is_static = is_static
        self._answer: Future[Partitions] | None = None
        self._ask_at: float | None = None
        """None: nothing is to be asked."""
        self._rest = REST
        self._rejoins = 0
        self._is_known = True

    def begin(self) -> None:
        """A new consumer joins the group."""
        self._is_known = not self._is_static
        self._rejoins, self._rest, self._answer, self._ask_at = 0, REST, None, None

    def assigned(self, now: float) -> None:
        """What it is assigned is being read."""
        if not self._is_known:
            self._answer, self._ask_at = None, now + REST * self._rejoins

    def is_to_join_again(self, topics: Collection[TopicName], ours: Collection[UpstreamPartition], now: float) -> bool:
        """Whether some partition is nobody's; told once for each answer."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            return self._take(answer, now)
        if self._answer is None and self._ask_at is not None and now >= self._ask_at and topics:
            mine = frozenset((each.topic, each.partition) for each in ours)
            self._answer = self._groups.nobodys(self._group, topics, mine)
        return False

    def _take(self, answer: Future[Partitions], now: float) -> bool:
        try:
            nobodys = answer.result()
        except Undescribed as problem:
            self._ask_at, self._rest = now + self._rest, min(2 * self._rest, MOST_REST)
            log.debug("it is not known whose partitions are", cluster=self._cluster, reason=str(problem))
            return False
        self._ask_at = None
        if not nobodys or self._rejoins >= self._groups.most_rejoins:
            self._is_known = True
            return False
        self._rejoins += 1
        log.info(
            "joining the group again: partitions of its topics have no member",
            cluster=self._cluster,
            group=self._group,
            partitions=len(nobodys),
        )
        return True
