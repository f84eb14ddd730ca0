"""Metrics of the pools of a virtual cluster, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.listener.samples import samples_of as samples_of_listener
from mesh.pool.inspection import holding_commits
from mesh.pool.pool import Pool
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.telemetry.metric_definitions import (
    BACKLOG_BYTES,
    BACKLOG_RECORDS,
    BUFFERED_BYTES,
    COMMIT_HELD_SECONDS,
    IN_FLIGHT_RECORDS,
    MEMBERS,
    MEMBERS_NEVER_COMMITTED,
    PARKED_FETCHES,
    POOLS,
    REPLAY_OFFSETS_LEFT,
    UNOPENED_PARTITIONS,
    UPSTREAM_LAG,
    WAITING_COMMITS,
    WAITING_FETCHES,
    MetricSample,
)


def samples_of(runtime: PoolRuntime) -> Iterator[MetricSample]:
    yield from samples_of_listener(runtime.listener)
    yield MetricSample(POOLS, (runtime.name,), len(runtime.core.pools))
    for pool in tuple(runtime.core.pools.values()):
        yield from _of_pool(runtime.name, pool, runtime.now())


def _of_pool(name: str, pool: Pool, now: float) -> Iterator[MetricSample]:
    labels = (name, str(pool.group))
    serving = pool.serving
    buffered = serving.distribution.backlogs.size + serving.distribution.collected_bytes + serving.sent_batches.size
    yield MetricSample(MEMBERS, labels, len(pool.members.by_id) + len(pool.members.groupless))
    yield MetricSample(PARKED_FETCHES, labels, sum(len(member.parked) for member in pool.members))
    yield MetricSample(WAITING_FETCHES, labels, serving.distribution.waiting)
    yield MetricSample(WAITING_COMMITS, labels, pool.commits.waiting + pool.share.waiting)
    yield MetricSample(REPLAY_OFFSETS_LEFT, labels, sum(each.left for each in pool.replaying.partitions()))
    yield MetricSample(MEMBERS_NEVER_COMMITTED, labels, sum(member.flow.was_overdue for member in pool.members))
    yield MetricSample(BUFFERED_BYTES, labels, buffered)
    for member in tuple(pool.members):
        yield MetricSample(IN_FLIGHT_RECORDS, (*labels, member.name, member.client.id), member.in_flight)
    for member, since in holding_commits(pool).items():
        yield MetricSample(COMMIT_HELD_SECONDS, (*labels, member.name, member.client.id), max(now - since, 0.0))
    for source, partition in tuple(pool.partitions.items()):
        records = sum(len(available) for available in partition.backlog.values())
        yield MetricSample(BACKLOG_RECORDS, (*labels, source.topic), records)
        yield MetricSample(BACKLOG_BYTES, (*labels, source.topic), partition.backlog_bytes)
        yield MetricSample(UNOPENED_PARTITIONS, (*labels, source.cluster), partition.is_unopened)
        if partition.is_active:
            where = (source.cluster, source.topic, str(source.partition))
            yield MetricSample(UPSTREAM_LAG, (*labels, *where), partition.lag)
