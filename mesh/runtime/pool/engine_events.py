"""Passes the events of the engines of one virtual cluster to the pools, to the counters, and to the watch for upstream
problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, assert_never

from mesh.pool.common.effects import DeadLetterUpstream, Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.core import PoolCore
from mesh.pool.intake.intake import Assignment
from mesh.pool.pool import Pool
from mesh.records.spans import ClusterName
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.problem_watch import ProblemWatch
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.engine import (
    Assigned,
    Committed,
    EndReached,
    EngineEvent,
    EngineFailed,
    EventBatch,
    GroupDown,
    GroupUp,
    HighWatermarks,
    Lost,
    PositionReset,
    ReadingDown,
    ReadingUp,
    Received,
    Reread,
    Revoked,
    SingleEvent,
    SourceDown,
    SourceUp,
    TopicsIdentified,
    Truncated,
    Unopened,
)

LogEvent: TypeAlias = HighWatermarks | TopicsIdentified | PositionReset | Truncated
AssignmentEvent: TypeAlias = Assigned | Unopened | Revoked | Lost
SourceEvent: TypeAlias = SourceDown | SourceUp | GroupDown | GroupUp | ReadingDown | ReadingUp | EngineFailed


class EngineEvents:
    """Passes the events of engines to their pools, to the counters, and to the watch for upstream problems. now:
    returns the time in seconds. carry_out: executes the effects that the pools return."""

    def __init__(
        self,
        core: PoolCore,
        metrics: Metrics,
        upstream_health: UpstreamHealth,
        now: Callable[[], float],
        carry_out: Callable[[Sequence[Effect]], None],
    ) -> None:
        self._core = core
        self._metrics = metrics
        self._watch = ProblemWatch(core.name, upstream_health, metrics)
        self._now = now
        self._carry_out = carry_out

    def happened(self, pool: Pool, cluster: ClusterName, event: EngineEvent) -> None:
        now = self._now()

        def apply(pool: Pool) -> None:
            for each in event.events if isinstance(event, EventBatch) else (event,):
                self._apply(pool, cluster, each, now)

        self._carry_out(self._core.upstream(pool, apply, now))

    def dead_letter_written(self, pool: Pool, effect: DeadLetterUpstream, error: str) -> None:
        """Notes that a dead letter was written. error: the reason why it could not be written; "" if it was written."""
        source, offset, now = effect.partition, effect.batch.first, self._now()
        if error:
            self._metrics.dead_letter_failed(self._core.name, pool.group)
        else:
            self._metrics.dead_letter(self._core.name, pool.group)
        self._carry_out(
            self._core.upstream(pool, lambda pool: pool.intake.dead_letter_ended(source, offset, error, now), now)
        )

    def left(self, group: GroupId, cluster: ClusterName) -> None:
        """Notes that the pool of a group has left a cluster."""
        self._watch.left(group, cluster)

    def ended(self, group: GroupId) -> None:
        """Notes that the pool of a group has ended."""
        self._watch.ended(group)

    def _apply(self, pool: Pool, cluster: ClusterName, event: SingleEvent, now: float) -> None:
        match event:
            case Received(partition, batches, engine):
                self._metrics.received(cluster, partition.topic, engine, batches)
                pool.intake.received(partition, batches, now, event.gap)
            case Committed(token, errors):
                self._watch.committed(pool.group, cluster, errors)
                pool.commits.committed(cluster, token, errors, now)
            case EndReached(partition, offset, gap):
                pool.intake.reached_end(partition, offset, gap)
            case Reread(partition, token, batches, complete, error, log_start):
                pool.intake.reread(partition, token, batches, complete, error, log_start, now)
            case Assigned() | Unopened() | Revoked() | Lost():
                self._apply_assignment_event(pool, cluster, event, now)
            case HighWatermarks() | TopicsIdentified() | PositionReset() | Truncated():
                self._apply_log_event(pool, cluster, event, now)
            case _:
                self._apply_source_event(pool, cluster, event)

    def _apply_assignment_event(self, pool: Pool, cluster: ClusterName, event: AssignmentEvent, now: float) -> None:
        match event:
            case Assigned(partitions):
                assignments = [
                    Assignment(item.partition, item.start, item.committed, item.resumed, item.end or 0)
                    for item in partitions
                ]
                self._watch.assigned(pool.group, cluster)
                pool.intake.assigned(cluster, assignments, now)
            case Unopened(unopened):
                self._watch.unopened(pool.group, cluster, unopened)
                pool.intake.unopened(cluster, unopened.keys())
            case Revoked(sources):
                pool.intake.revoked(sources)
            case Lost(sources):
                pool.intake.lost(sources)
            case _:
                assert_never(event)

    def _apply_log_event(self, pool: Pool, cluster: ClusterName, event: LogEvent, now: float) -> None:
        match event:
            case HighWatermarks(offsets, _, looked):
                pool.intake.ends_known(offsets, looked)
            case TopicsIdentified(ids):
                pool.intake.topics_identified(cluster, ids)
            case PositionReset(partition, start, reason):
                pool.intake.position_reset(partition, start, reason, now)
            case Truncated(partition, offset):
                pool.intake.truncated(partition, offset, now)
            case _:
                assert_never(event)

    def _apply_source_event(self, pool: Pool, cluster: ClusterName, event: SourceEvent) -> None:
        match event:
            case ReadingDown(reason, problem):
                self._watch.reading_down(pool.group, cluster, problem, reason)
            case ReadingUp():
                self._watch.reading_up(pool.group, cluster)
            case SourceDown(reason, problem):
                self._watch.source_down(pool.group, cluster, problem, reason)
                pool.commits.cluster_down(cluster)
            case SourceUp():
                self._watch.source_up(pool.group, cluster)
                pool.commits.cluster_up(cluster)
            case GroupDown(reason, problem):
                self._watch.group_down(pool.group, cluster, problem, reason)
                pool.commits.group_down(cluster)
            case GroupUp():
                self._watch.group_up(pool.group, cluster)
                pool.commits.group_up(cluster)
            case EngineFailed(reason, traceback):
                self._watch.engine_failed(pool.group, cluster, reason, traceback)
                pool.intake.engine_failed(cluster)
                pool.commits.engine_failed(cluster)
            case _:
                assert_never(event)
