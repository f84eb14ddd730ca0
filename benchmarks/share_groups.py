"""A share group of the mesh beside that of the broker, and what both cost the broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from benchmarks.bed import Bed, Engine, Target
from benchmarks.clients import Client, consume
from benchmarks.filling import Topic
from benchmarks.machine import cpu_seconds, peak_mib
from benchmarks.rounds import Measure, Measured

BROKERS = "share group of the broker"
NODES = 6
"""Nodes of a mesh with several: each leads a partition of the topics."""


@contextmanager
def share_groups(bed: Bed, topic: Topic, engines: Sequence[Engine], consumers: int) -> Iterator[Mapping[str, Measure]]:
    """Share consumers of Java on the broker and on each mesh, and plain ones; of several, each has an equal part.
    second: CPU seconds of the broker for a million records."""
    bed.fill(topic)
    with bed.meshes(engines) as meshes, bed.mesh(engines[0], nodes=NODES) as several:
        measures = {
            "direct": _measure(bed, "java", bed.direct, topic, consumers),
            BROKERS: _measure(bed, "share", bed.direct, topic, consumers),
        }
        yield measures | {each.name: _measure(bed, "share", each, topic, consumers) for each in (*meshes, several)}


def _measure(bed: Bed, client: Client, target: Target, topic: Topic, consumers: int) -> Measure:
    def measure() -> Measured:
        pids = dict.fromkeys((*target.pids, bed.broker.pid))
        before = {pid: cpu_seconds(pid) for pid in pids}
        consumed = consume(client, bed, [target], topic, consumers)
        costs = {pid: cpu_seconds(pid) - before[pid] for pid in pids}
        return Measured(
            consumed.rate,
            sum(costs[pid] for pid in target.pids),
            sum(map(peak_mib, target.pids)),
            consumed.records,
            consumed.records * topic.size,
            costs[bed.broker.pid] / (consumed.records / 1e6),
        )

    return measure
