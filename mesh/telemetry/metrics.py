"""What Prometheus is told. Events are counted when they happen; states are asked for at the time of a scrape.

Every name that a client or an upstream cluster chooses goes through `BoundedLabels`: beyond the limits it is counted
as "other". All of it lives on the event loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from mesh.records.batch import Batch
from mesh.telemetry.fast_counters import FastCounter, FastCounters, Spread, Spreads
from mesh.telemetry.labels import OTHER, BoundedLabels, Scope
from mesh.telemetry.metric_definitions import FAMILIES, Collect, MetricDefinition, Sample
from mesh.wire.errors import ErrorCode

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


def _family(definition: MetricDefinition) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if definition.is_counter else GaugeMetricFamily
    return kind(definition.name, definition.help, labels=definition.labels)


class Metrics:
    """The metrics of the process, with bounded labels. groups: per virtual cluster; members and clients: per group;
    topics: over all; partitions: per topic."""

    def __init__(
        self, *, groups: int = 100, members: int = 200, clients: int = 200, topics: int = 500, partitions: int = 1_000
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._groups = BoundedLabels(groups)
        self._topics = BoundedLabels(topics)
        self._passing = {
            "member": BoundedLabels(members),
            "client_id": BoundedLabels(clients),
            "partition": BoundedLabels(partitions),
        }
        self._collectors: list[Collect] = []
        self._received: dict[tuple[str, str, str], tuple[FastCounter, FastCounter, FastCounter]] = {}
        self._sent: dict[tuple[str, str, str], tuple[FastCounter, FastCounter]] = {}
        self._requests: dict[tuple[str, str, ErrorCode], tuple[FastCounter, Spread]] = {}
        self._events = _Events(self.registry)
        ProcessCollector(registry=self.registry)
        self.registry.register(_States(self._collected))

    def add_collector(self, collect: Collect) -> None:
        """Ask `collect` for its samples at every scrape; those that have the same labels are added up."""
        self._collectors.append(collect)

    def remove_collector(self, collect: Collect) -> None:
        self._collectors.remove(collect)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format; to be called on the event loop's thread."""
        return generate_latest(self.registry)

    # Events

    def received(self, cluster: str, topic: str, engine: str, batches: Sequence[Batch]) -> None:
        """An engine brought batches from an upstream cluster."""
        counted, sized, carried = self._received.get((cluster, topic, engine)) or self._source(cluster, topic, engine)
        for batch in batches:
            size = len(batch.data)
            counted.value += batch.record_count
            sized.value += size
            carried.value += size

    def sent(self, virtual_cluster: str, group: str, topic: str, records: int, size: int) -> None:
        """Records went into a Fetch answer; size in bytes."""
        key = (virtual_cluster, group, topic)
        counted, sized = self._sent.get(key) or self._receiver(*key)
        counted.value += records
        sized.value += size

    def committed(self, virtual_cluster: str, group: str, error: ErrorCode) -> None:
        """A member's commit of one partition was answered."""
        label = self._groups.admit(group, (virtual_cluster,))
        self._events.commits.labels(virtual_cluster, label, error.name).inc()

    def redelivered(self, virtual_cluster: str, group: str, records: int) -> None:
        """Records were delivered that had been delivered before."""
        self._events.redelivered.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc(records)

    def gone(self, virtual_cluster: str, group: str, offsets: int) -> None:
        """Offsets that nobody had settled are not there any more upstream."""
        self._events.gone.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc(offsets)

    def given_up(self, virtual_cluster: str, group: str, offsets: int) -> None:
        """Share members rejected offsets, or were given them too often; they are settled without a dead letter."""
        self._events.given_up.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc(offsets)

    def dead_letter(self, virtual_cluster: str, group: str) -> None:
        """A record was written to its dead-letter topic."""
        self._events.dead_letters.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc()

    def dead_letter_failed(self, virtual_cluster: str, group: str) -> None:
        """A record could not be written to its dead-letter topic, and will be tried again."""
        self._events.dead_letter_failures.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc()

    def request(self, virtual_cluster: str, api: str, error: ErrorCode, seconds: float) -> None:
        """A request was answered, `seconds` after it arrived."""
        key = (virtual_cluster, api, error)
        found = self._requests.get(key)
        if found is None:
            counter = self._events.requests.labels(virtual_cluster, api, error.name)
            found = self._requests[key] = (counter, self._events.request_seconds.labels(virtual_cluster, api))
        found[0].value += 1
        found[1].observe(seconds)

    def protocol_error(self, virtual_cluster: str, reason: str) -> None:
        """A connection was closed because of what its client sent. reason: one of a fixed set."""
        self._events.protocol_errors.labels(virtual_cluster, reason).inc()

    def authentication(self, virtual_cluster: str, mechanism: str, result: str) -> None:
        """A client authenticated, or failed to. mechanism, result: each one of a fixed set."""
        self._events.authentications.labels(virtual_cluster, mechanism, result).inc()

    def refusal(self, virtual_cluster: str, api: str, operation: str, resource_type: str) -> None:
        """The rules did not allow what a client asked for."""
        self._events.refusals.labels(virtual_cluster, api, operation, resource_type).inc()

    def tls_failure(self, virtual_cluster: str, reason: str) -> None:
        """A TLS handshake failed. reason: one of a fixed set."""
        self._events.tls_failures.labels(virtual_cluster, reason).inc()

    def connection_closed(self, virtual_cluster: str, reason: str) -> None:
        """A connection was refused or closed for a limit. reason: one of a fixed set."""
        self._events.connections_closed.labels(virtual_cluster, reason).inc()

    def throttled(self, virtual_cluster: str, api: str) -> None:
        """A request was above a quota: it was answered, and its connection rests."""
        self._events.throttled.labels(virtual_cluster, api).inc()

    def violation(self, virtual_cluster: str) -> None:
        """A pool contradicted itself and was closed."""
        self._events.violations.labels(virtual_cluster).inc()

    def upstream_commit(self, cluster: str, *, stored: bool) -> None:
        """An upstream commit ended. stored: all of it; False: some of it was refused or not answered."""
        self._events.upstream_commits.labels(cluster, "stored" if stored else "failed").inc()

    def journal(self, events: int, result: str) -> None:
        """Events of the delivery journal were written or dropped. result: which."""
        self._events.journal.labels(result).inc(events)

    def engine_failed(self, cluster: str) -> None:
        """An engine failed because of a bug, and is made anew."""
        self._events.engine_failures.labels(cluster).inc()

    def loop_lag(self, seconds: float) -> None:
        """A callback of the event loop came this much later than it was due."""
        self._events.loop_lag.observe(seconds)

    # To Prometheus a series that appears has not risen: what alerts watch is there, at 0, before anything happens.

    def watch_virtual_cluster(self, virtual_cluster: str) -> None:
        self._events.violations.labels(virtual_cluster)

    def watch_group(self, virtual_cluster: str, group: str, cluster: str) -> None:
        """A pool begins to consume from a cluster."""
        self._events.engine_failures.labels(cluster)
        label = self._groups.admit(group, (virtual_cluster,))
        for counted in (
            self._events.gone,
            self._events.given_up,
            self._events.dead_letters,
            self._events.dead_letter_failures,
        ):
            counted.labels(virtual_cluster, label)

    def forget_group(self, virtual_cluster: str, group: str) -> None:
        """A pool has ended: its series go, and there is room for another group's."""
        label = self._groups.forget(group, (virtual_cluster,))
        for key in [key for key in self._sent if key[:2] == (virtual_cluster, group)]:
            del self._sent[key]
        if label is not None:
            self._events.forget({"virtual_cluster": virtual_cluster, "group": label})

    # Series that are resolved once are kept, unless they stand for many names: those have no end.

    def _source(self, cluster: str, topic: str, engine: str) -> tuple[FastCounter, FastCounter, FastCounter]:
        labels = (cluster, self._topics.admit(topic))
        events = self._events
        series = events.records_in.labels(*labels), events.bytes_in.labels(*labels)
        found = (*series, events.engine_bytes_in.labels(cluster, engine))
        if OTHER not in labels:
            self._received[cluster, topic, engine] = found
        return found

    def _receiver(self, virtual_cluster: str, group: str, topic: str) -> tuple[FastCounter, FastCounter]:
        labels = (virtual_cluster, self._groups.admit(group, (virtual_cluster,)), self._topics.admit(topic))
        pair = self._events.records_out.labels(*labels), self._events.bytes_out.labels(*labels)
        if OTHER not in labels:
            self._sent[virtual_cluster, group, topic] = pair
        return pair

    # States

    def _collected(self) -> Iterator[Metric]:
        families = {family: _family(family) for family in FAMILIES}
        totals: dict[tuple[MetricDefinition, tuple[str, ...]], float] = {}
        seen: dict[str, set[tuple[Scope, str]]] = {name: set() for name in self._passing}
        for collect in self._collectors:
            for sample in collect():
                key = (sample.family, self._bounded(sample, seen))
                totals[key] = totals.get(key, 0.0) + sample.value
        for name, labels in self._passing.items():
            labels.keep_only(seen[name])
        for (family, values), total in totals.items():
            families[family].add_metric(values, total)
        yield from families.values()

    def _bounded(self, sample: Sample, seen: dict[str, set[tuple[Scope, str]]]) -> tuple[str, ...]:
        given = dict(zip(sample.family.labels, sample.labels, strict=True))
        bounded: list[str] = []
        for name, value in given.items():
            match name:
                case "group":
                    value = self._groups.admit(value, (given["virtual_cluster"],))
                case "topic":
                    value = self._topics.admit(value)
                case "member" | "client_id" | "partition":
                    scope: Scope = (given["virtual_cluster"], given["group"])
                    if name == "partition":
                        scope = (*scope, given["cluster"], given["topic"])
                    seen[name].add((scope, value))
                    value = self._passing[name].admit(value, scope)
            bounded.append(value)
        return tuple(bounded)


class _Events:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"kafka_mesh_{name}", text, labels, registry=registry)

        def fast_counters(name: str, text: str, *labels: str) -> FastCounters:
            return FastCounters(f"kafka_mesh_{name}", text, labels, registry)

        source, receiver = ("cluster", "topic"), ("virtual_cluster", "group", "topic")
        self.records_in = fast_counters("records_in", "Records received from upstream.", *source)
        self.bytes_in = fast_counters("bytes_in", "Bytes of record batches received from upstream.", *source)
        self.engine_bytes_in = fast_counters(
            "engine_bytes_in", "Bytes of record batches received from upstream, by what read them.", "cluster", "engine"
        )
        self.records_out = fast_counters("records_out", "Records sent to members.", *receiver)
        self.bytes_out = fast_counters("bytes_out", "Bytes of record batches sent to members.", *receiver)
        self.commits = counter("commits", "Commits of members, by partition.", "virtual_cluster", "group", "result")
        self.redelivered = counter("redelivered_records", "Records delivered once more.", "virtual_cluster", "group")
        pool = ("virtual_cluster", "group")
        self.gone = counter("gone_offsets", "Offsets gone upstream before they were acknowledged; skipped.", *pool)
        self.given_up = counter("given_up_offsets", "Offsets that share members rejected, or had too often.", *pool)
        self.dead_letters = counter("dead_letters", "Records written to a dead-letter topic.", *pool)
        self.dead_letter_failures = counter("dead_letter_failures", "Dead letters that could not be written.", *pool)
        self.requests = fast_counters("requests", "Requests answered.", "virtual_cluster", "api", "error")
        self.request_seconds = Spreads(
            "kafka_mesh_request_seconds",
            "Time from a request to its answer; a Fetch may be parked for long.",
            ("virtual_cluster", "api"),
            registry,
            _SECONDS,
        )
        self.protocol_errors = counter(
            "protocol_errors", "Connections closed because of what their client sent.", "virtual_cluster", "reason"
        )
        self.authentications = counter(
            "authentications", "Authentications by SASL.", "virtual_cluster", "mechanism", "result"
        )
        self.refusals = counter(
            "authorization_refusals",
            "What clients asked for and the rules did not allow.",
            *("virtual_cluster", "api", "operation", "resource_type"),
        )
        self.tls_failures = counter("tls_failures", "TLS handshakes that failed.", "virtual_cluster", "reason")
        self.connections_closed = counter(
            "connections_closed", "Connections refused or closed for a limit.", "virtual_cluster", "reason"
        )
        self.throttled = counter("throttled_requests", "Requests above a quota.", "virtual_cluster", "api")
        self.violations = counter(
            "pool_violations", "Pools that contradicted themselves and were closed.", "virtual_cluster"
        )
        self.upstream_commits = counter("upstream_commits", "Commits to upstream groups.", "cluster", "result")
        self.engine_failures = counter("engine_failures", "Engines that failed and were made anew.", "cluster")
        self.journal = counter("journal_events", "Events of the delivery journal.", "result")
        self.loop_lag = Histogram(
            "kafka_mesh_event_loop_lag_seconds",
            "How late callbacks of the event loop come.",
            registry=registry,
            buckets=_SECONDS,
        )

    def forget(self, labels: dict[str, str]) -> None:
        groups = (self.records_out, self.bytes_out, self.commits, self.redelivered)
        for family in (*groups, self.gone, self.given_up, self.dead_letters, self.dead_letter_failures):
            family.remove_by_labels(labels)


class _States:
    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self.collect = collect

    def describe(self) -> Iterable[Metric]:
        return [_family(family) for family in FAMILIES]
