"""Every case of the benchmark, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks import (
    catching_up,
    commits,
    growth,
    idle,
    latency,
    parked,
    producing,
    share_groups,
    starts,
    throughput,
)
from benchmarks.bed import LONG, TOPICS, Bed, Engine, Target
from benchmarks.clients import Client
from benchmarks.curves import Curve
from benchmarks.machine import LoadMeter
from benchmarks.one_node import one_node_cases
from benchmarks.options import Case, Options
from benchmarks.rounds import PROBLEMS, Measure, Measured, Series, interleave

CLIENTS: tuple[Client, ...] = ("kcat", "java", "confluent", "aiokafka")
RELAYED_CLIENTS: tuple[Client, ...] = ("kcat", "java", "confluent")
PRODUCERS: tuple[producing.Producer, ...] = ("java", "confluent")
IDLE_CLIENTS = 2_000
SHARED = ("s100-60", "s1k-60")
"""Topics for several consumers: their partitions divide evenly."""


def grow(name: str, options: Options) -> Curve:
    """Measure a scenario of growth."""
    curve = growth.measure(growth.SCENARIOS[name], options.short)
    for point in curve.points:
        options.say(f"{name} {point.size:,} {curve.unit}: {point.median:.1f} us")
    return curve


def _cases() -> Iterator[tuple[str, Case]]:
    for client in CLIENTS:
        for topic in TOPICS:
            yield f"{client}-{topic}", _consumers(f"{client}-{topic}", client, topic, 1)
        for count in (2, 4):
            for topic in SHARED:
                name = f"{client}-x{count}-{topic}"
                yield name, _consumers(name, client, topic, count)
    for topic in ("s100", "s1k"):
        name = f"engines-{topic}"
        yield name, _consumers(name, "confluent", topic, 1, ("raw", "librdkafka"))
        yield f"scale-out-{topic}", _scale_out(f"scale-out-{topic}", f"{topic}-60")
        yield f"journal-{topic}", _journal(f"journal-{topic}", topic)
        yield f"share-{topic}", _share_groups(f"share-{topic}", topic, 1)
        yield f"share-x4-{topic}", _share_groups(f"share-x4-{topic}", topic, 4)
    yield from _relay_cases()
    for rate in (100, 5_000):
        yield f"latency-{rate}", _latency(rate)
    for consumers in (200, 1_000):
        yield f"parked-{consumers}", _parked(consumers)
    yield "steady-x4", _steady
    yield "late-joiner", _late_joiner
    yield "commits", _commits
    yield "start", _start
    yield "redelivery", _redelivery


def _relay_cases() -> Iterator[tuple[str, Case]]:
    for relayed in RELAYED_CLIENTS:
        for topic in ("s100", "s1k"):
            yield f"relay-{relayed}-{topic}", _relayed(f"relay-{relayed}-{topic}", relayed, topic)
    for producer in PRODUCERS:
        for size in (100, 1_000):
            for acks in ("1", "all"):
                name = f"relay-{producer}-produce-{size}-{acks}"
                yield name, _produced(name, producer, size, acks)
    for producer in PRODUCERS:
        yield f"union-{producer}-produce-1000-all", _produced_to_union(f"union-{producer}-produce-1000-all", producer)
    for relayed in RELAYED_CLIENTS:
        for topic in ("s100", "s1k"):
            yield f"union-{relayed}-{topic}", _united(f"union-{relayed}-{topic}", relayed, topic)
    yield from one_node_cases()
    for topic in ("s100", "s1k", "lz4-1k"):
        yield f"interceptors-{topic}", _intercepted(f"interceptors-{topic}", topic)
    yield "relay-latency", _relay_latency
    yield "relay-idle", _relay_idle


def _consumers(name: str, client: Client, topic: str, count: int, engines: tuple[Engine, ...] = ()) -> Case:
    def case(bed: Bed, options: Options) -> list[Series]:
        chosen = engines or options.engines
        with throughput.consumers(bed, client, TOPICS[topic], count, chosen, options.peers) as measures:
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _share_groups(name: str, topic: str, consumers: int) -> Case:
    def case(bed: Bed, options: Options) -> list[Series]:
        with share_groups.share_groups(bed, TOPICS[topic], options.engines, consumers) as measures:
            rates = interleave(Series(name, "records/s"), measures, options.rounds, options.say)
        broker = Series(f"{name} broker", "CPU s / million records of the broker")
        for run in rates.runs:
            broker.add(run.round, run.target, Measured(run.measured.second), run.foreign)
        return [rates, broker]

    return case


def _relayed(name: str, client: Client, topic: str) -> Case:
    """A consumer through relays."""

    def case(bed: Bed, options: Options) -> list[Series]:
        with throughput.relayed(bed, client, TOPICS[topic], options.peers) as measures:
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _produced(name: str, producer: producing.Producer, size: int, acks: str) -> Case:
    """A producer through relays."""

    def case(bed: Bed, options: Options) -> list[Series]:
        count = max(int(producing.PRODUCED_BYTES / size * options.scale), 10_000)
        with bed.relays() as relays:
            targets = [bed.direct, bed.relay, *relays, *([bed.kroxylicious()] if options.peers else [])]
            measures = {target.name: producing.at(bed, target, producer, size, acks, count) for target in targets}
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _united(name: str, client: Client, topic: str) -> Case:
    """A consumer through a relay, and through a union that renames nothing."""

    def case(bed: Bed, options: Options) -> list[Series]:
        with throughput.united(bed, client, TOPICS[topic]) as measures:
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _intercepted(name: str, topic: str) -> Case:
    """A consumer through relays with interceptors."""

    def case(bed: Bed, options: Options) -> list[Series]:
        with throughput.intercepted(bed, "confluent", TOPICS[topic]) as measures:
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _produced_to_union(name: str, producer: producing.Producer) -> Case:
    """A producer through the same."""

    def case(bed: Bed, options: Options) -> list[Series]:
        count = max(int(producing.PRODUCED_BYTES / 1_000 * options.scale), 10_000)
        with bed.union() as targets:
            measures = {
                target.name: producing.at(bed, target, producer, 1_000, "all", count)
                for target in (bed.direct, bed.relay, *targets)
            }
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _relay_latency(bed: Bed, options: Options) -> list[Series]:
    """From produce to receipt at 100 records a second, both ways through relays."""
    median, p99 = Series("relay-latency median", "ms"), Series("relay-latency p99", "ms")
    seconds = 2.0 if options.short else 12.0

    def measure(target: Target) -> Measured:
        found = latency.both_ways(bed, target, 100, seconds)
        return Measured(found["median"], second=found["p99"])

    with bed.relays() as relays:
        targets = [bed.direct, bed.relay, *relays, *([bed.kroxylicious()] if options.peers else [])]
        measures: dict[str, Measure] = {target.name: lambda target=target: measure(target) for target in targets}  # type: ignore[misc]
        interleave(median, measures, options.rounds, options.say)
    for run in median.runs:
        p99.add(run.round, run.target, Measured(run.measured.second), run.foreign)
    return [median, p99]


def _relay_idle(bed: Bed, options: Options) -> list[Series]:
    """KiB for each client that is connected to a relay and idle; relays that have just begun."""
    clients = 100 if options.short else IDLE_CLIENTS

    def measure(index: int) -> Measured:
        with bed.relays() as relays:
            return Measured(idle.measure(relays[index], clients))

    measures: dict[str, Measure] = {"relay": lambda: measure(0), "mesh, relay": lambda: measure(1)}
    return [interleave(Series("relay-idle", "KiB a client"), measures, options.rounds, options.say)]


def _scale_out(name: str, topic: str) -> Case:
    """Four consumers."""

    def case(bed: Bed, options: Options) -> list[Series]:
        with throughput.two_processes(bed, "confluent", TOPICS[topic], 4) as measures:
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _journal(name: str, topic: str) -> Case:
    """What the delivery journal costs."""

    def case(bed: Bed, options: Options) -> list[Series]:
        with throughput.journal(bed, "kcat", TOPICS[topic]) as measures:
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _steady(bed: Bed, options: Options) -> list[Series]:
    """Four consumers that have committed, at full rate."""
    bed.fill(LONG)
    with ExitStack() as stack:
        targets = [bed.direct, bed.relay, *stack.enter_context(bed.meshes(options.engines))]
        measures: dict[str, Measure] = {
            target.name: lambda target=target: catching_up.steady(bed, target, LONG, options.short)  # type: ignore[misc]
            for target in targets
        }
        return [interleave(Series("steady-x4", "records/s"), measures, options.rounds, options.say)]


def _late_joiner(bed: Bed, options: Options) -> list[Series]:
    """Seconds until consumers that join a catch-up have half of their part, and all of it."""
    bed.fill(LONG)
    half, whole = Series("late-joiner half", "s"), Series("late-joiner whole", "s")

    def measure(target: Target, with_java: bool) -> Measure:
        return lambda: catching_up.late(bed, target, LONG, with_java, options.short)

    with ExitStack() as stack:
        measures = {"direct": measure(bed.direct, False), "direct, with Java": measure(bed.direct, True)}
        for target in stack.enter_context(bed.meshes(options.engines)):
            measures[target.name] = measure(target, False)
            measures[f"{target.name}, with Java"] = measure(target, True)
        interleave(half, measures, options.rounds, options.say)
    for run in half.runs:
        whole.add(run.round, run.target, Measured(run.measured.second), run.foreign)
    return [half, whole]


def _latency(rate: int) -> Case:
    """A series for each percentile. All targets are measured at the same time, on the same records."""

    def case(bed: Bed, options: Options) -> list[Series]:
        result = {name: Series(f"latency-{rate} {name}", "ms") for name in latency.PERCENTILES}
        seconds = 2.0 if options.short else 12.0
        with ExitStack() as stack:
            targets: list[Target] = [bed.direct, bed.relay, *([bed.kroxylicious()] if options.peers else [])]
            targets += stack.enter_context(bed.meshes(options.engines))
            for number in range(1, options.rounds + 1):
                meter = LoadMeter()
                try:
                    found = latency.measure(bed, targets, rate, seconds)
                except PROBLEMS as problem:
                    result["median"].failures.append(f"round {number}: {problem}")
                    continue
                foreign = meter.read().foreign
                for target, percentiles in found.items():
                    options.say(f"latency-{rate} {number}/{options.rounds} {target}: {percentiles}")
                    for name, value in percentiles.items():
                        result[name].add(number, target, Measured(value), foreign)
        return list(result.values())

    return case


def _parked(consumers: int) -> Case:
    """Cores while nothing arrives, and seconds until all of them have a record."""

    def case(bed: Bed, options: Options) -> list[Series]:
        idle, woken = Series(f"parked-{consumers} idle", "cores"), Series(f"parked-{consumers} woken", "s")
        seconds = 2.0 if options.short else 6.0

        def measure(target: Target) -> Measured:
            found = parked.measure(bed, target, consumers, seconds)
            options.say(f"{target.name}: {found}")
            return Measured(found.cores, second=found.woken)

        with ExitStack() as stack:
            targets = [bed.direct, *stack.enter_context(bed.meshes(options.engines))]
            measures: dict[str, Measure] = {
                target.name: lambda target=target: measure(target)  # type: ignore[misc]
                for target in targets
            }
            interleave(idle, measures, options.rounds, options.say)
        for run in idle.runs:
            woken.add(run.round, run.target, Measured(run.measured.second), run.foreign)
        return [idle, woken]

    return case


def _commits(bed: Bed, options: Options) -> list[Series]:
    """The rate of a consumer that waits for the commit of each record."""
    count = 100 if options.short else int(commits.RECORDS * options.scale)
    with ExitStack() as stack:
        targets = [bed.direct, bed.relay, *stack.enter_context(bed.meshes(options.engines))]
        measures: dict[str, Measure] = {
            target.name: lambda target=target: commits.measure(bed, target, count)  # type: ignore[misc]
            for target in targets
        }
        return [interleave(Series("commits", "records/s"), measures, options.rounds, options.say)]


def _start(bed: Bed, options: Options) -> list[Series]:
    with ExitStack() as stack:
        targets = [bed.direct, bed.relay, *stack.enter_context(bed.meshes(options.engines))]
        measures: dict[str, Measure] = {
            target.name: lambda target=target: starts.consumer_start(bed, target)  # type: ignore[misc]
            for target in targets
        }
        consumer = interleave(Series("start of a consumer", "s"), measures, options.rounds, options.say)
    processes: dict[str, Measure] = {
        f"mesh, {engine}": lambda engine=engine: starts.mesh_start(bed, engine)  # type: ignore[misc]
        for engine in options.engines
    }
    return [consumer, interleave(Series("start of the mesh", "s"), processes, options.rounds, options.say)]


def _redelivery(bed: Bed, options: Options) -> list[Series]:
    """Directly with the shortest session that a broker allows, through the mesh with the clients' own 45 s."""
    session = starts.DIRECT_SESSION_MS
    with ExitStack() as stack:
        measures: dict[str, Measure] = {
            f"direct, session of {session // 1_000} s": lambda: starts.redelivery(bed, bed.direct, session)
        }
        for engine in options.engines:
            target = stack.enter_context(bed.mesh(engine))
            measures[target.name] = lambda target=target: starts.redelivery(bed, target)  # type: ignore[misc]
        return [interleave(Series("redelivery", "s"), measures, options.rounds, options.say)]


CASES = dict(_cases())
NAMES = (*CASES, *growth.SCENARIOS)
USUAL = (
    *(f"{client}-{topic}" for client in CLIENTS[:3] for topic in ("s100", "s1k")),
    "java-lz4-100",
    "confluent-x4-s100-60",
    "steady-x4",
    "late-joiner",
    "latency-100",
    "parked-200",
    "commits",
    "start",
    "redelivery",
    *(f"relay-{client}-{topic}" for client in RELAYED_CLIENTS for topic in ("s100", "s1k")),
    *(f"relay-{client}-produce-1000-{acks}" for client in PRODUCERS for acks in ("1", "all")),
    *("relay-latency", "relay-idle"),
    *growth.SCENARIOS,
)
