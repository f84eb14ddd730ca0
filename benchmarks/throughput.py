"""The rate of one consumer, and of several that share, with CPU and memory of the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.bed import Bed, Engine, Target
from benchmarks.clients import Client, Consumed, consume
from benchmarks.filling import Topic
from benchmarks.machine import cpu_seconds, peak_mib
from benchmarks.rounds import Measure, Measured
from benchmarks.several import SeveralBed


@contextmanager
def consumers(
    bed: Bed, client: Client, topic: Topic, count: int, engines: Sequence[Engine], peers: bool
) -> Iterator[Mapping[str, Measure]]:
    """`count` consumers of one group on each target: directly they split the partitions, through the mesh they share
    the records. A mesh lives through all rounds, as its users' does; each run is another group.

    For Java, a share group in addition, the nearest thing in kind. peers: Kroxylicious too.
    """
    bed.fill(topic)
    with ExitStack() as stack:
        targets = [bed.direct, bed.relay, *([bed.kroxylicious()] if peers else [])]
        targets += stack.enter_context(bed.meshes(engines))
        measures = {target.name: _measure(bed, client, topic, count, [target]) for target in targets}
        if client == "java":
            share = _measure(bed, "share", topic, count, [bed.direct])
            measures["share group"] = share
        yield measures


@contextmanager
def relayed(bed: Bed, client: Client, topic: Topic, peers: bool) -> Iterator[Mapping[str, Measure]]:
    """One consumer through everything that passes bytes on. peers: Kroxylicious too."""
    bed.fill(topic)
    with bed.relays() as relays:
        targets = [bed.direct, bed.relay, *relays, *([bed.kroxylicious()] if peers else [])]
        yield {target.name: _measure(bed, client, topic, 1, [target]) for target in targets}


@contextmanager
def united(bed: Bed, client: Client, topic: Topic) -> Iterator[Mapping[str, Measure]]:
    """One consumer through a relay, and through a union that renames nothing."""
    bed.fill(topic)
    with bed.union() as targets:
        yield {target.name: _measure(bed, client, topic, 1, [target]) for target in (bed.direct, bed.relay, *targets)}


@contextmanager
def at_one_node(bed: SeveralBed, client: Client, topic: Topic) -> Iterator[Mapping[str, Measure]]:
    """One consumer of three brokers: directly, and through relays with an address for each of them, and for all."""
    bed.fill(topic)
    with bed.shown() as targets:
        yield {target.name: _measure(bed, client, topic, 1, [target]) for target in targets}


@contextmanager
def intercepted(bed: Bed, client: Client, topic: Topic) -> Iterator[Mapping[str, Measure]]:
    """One consumer through a relay with each kind of interceptor."""
    bed.fill(topic)
    with bed.intercepting() as targets:
        yield {target.name: _measure(bed, client, topic, 1, [target]) for target in (bed.direct, bed.relay, *targets)}


@contextmanager
def two_processes(bed: Bed, client: Client, topic: Topic, count: int) -> Iterator[Mapping[str, Measure]]:
    """`count` consumers on one process of the mesh, and spread over two in the same pool: Kafka divides the partitions
    between the processes."""
    bed.fill(topic)
    with bed.mesh() as one, bed.mesh() as first, bed.mesh() as second:
        yield {
            "direct": _measure(bed, client, topic, count, [bed.direct]),
            "one process": _measure(bed, client, topic, count, [one]),
            "two processes": _measure(bed, client, topic, count, [first, second]),
        }


@contextmanager
def journal(bed: Bed, client: Client, topic: Topic) -> Iterator[Mapping[str, Measure]]:
    """The same mesh with a journal of its deliveries, and without."""
    bed.fill(topic)
    with bed.mesh() as without, bed.mesh(journal=True) as kept:
        targets = [bed.direct, without, kept]
        yield {target.name: _measure(bed, client, topic, 1, [target]) for target in targets}


def _measure(bed: Bed, client: Client, topic: Topic, count: int, targets: Sequence[Target]) -> Measure:
    return lambda: _measured(targets, topic, lambda: consume(client, bed, targets, topic, count))


def _measured(targets: Sequence[Target], topic: Topic, run: Callable[[], Consumed]) -> Measured:
    pids = [pid for target in targets for pid in target.pids]
    before = sum(map(cpu_seconds, pids))
    consumed = run()
    cost = sum(map(cpu_seconds, pids)) - before
    size = consumed.records * topic.size
    return Measured(consumed.rate, cost, sum(map(peak_mib, pids)), consumed.records, size)
