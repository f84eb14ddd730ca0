"""Metrics for Prometheus. Events are counted when they happen; states are read at the time of a scrape.

Every name that a client or an upstream cluster chooses goes through `BoundedLabels`: names beyond the limits are
counted as "other". All of it lives on the event loop's thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from mesh.records.batch import RecordBatch
from mesh.telemetry.fast_counters import PART, FastCounter, FastCounterSeries, FastHistogram, FastHistogramSeries
from mesh.telemetry.labels import OTHER, BoundedLabels, Scope
from mesh.telemetry.metric_definitions import FAMILIES, Collect, MetricDefinition, MetricSample
from mesh.wire.errors import ErrorCode

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


def _family(definition: MetricDefinition) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if definition.is_counter else GaugeMetricFamily
    return kind(definition.name, definition.help, labels=definition.labels)


class Metrics:
    """The metrics of the process. The arguments limit the number of label values: groups for each virtual cluster,
    members and clients for each group, topics in total, partitions for each topic."""

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
        self._received: dict[tuple[str, str, str], tuple[FastCounterSeries, FastCounterSeries, FastCounterSeries]] = {}
        self._sent: dict[tuple[str, str, str], tuple[FastCounterSeries, FastCounterSeries]] = {}
        self._requests: dict[tuple[str, str, ErrorCode], tuple[FastCounterSeries, FastHistogramSeries]] = {}
        self._events = _Events(self.registry)
        ProcessCollector(registry=self.registry)

    def add_collector(self, collect: Collect) -> None:
        """Adds a function that returns samples. It is called at every scrape; samples with the same labels are added
        up. Other code may run between two samples, so the function walks copies of collections."""
        self._collectors.append(collect)

    def remove_collector(self, collect: Collect) -> None:
        self._collectors.remove(collect)

    def exposition(self) -> Iterator[bytes]:
        """Yields all metrics in Prometheus' text format, in pieces that take little time; some are empty. Call it on
        the event loop's thread."""
        before = ""
        for metric in self.families():
            if metric is None:
                yield b""
                continue
            text = generate_latest(_Part(metric))
            if metric.name == before:  # HELP and TYPE are there already
                text = text.split(b"\n", 2)[2]
            before = metric.name
            yield text

    def families(self) -> Iterator[Metric | None]:
        """Yields all metrics. One with many series comes in parts, one after the other. None: none is ready yet."""
        yield from self.registry.collect()
        yield from self._collected()

    # Events

    def received(self, cluster: str, topic: str, engine: str, batches: Sequence[RecordBatch]) -> None:
        """Counts batches that an engine brought from an upstream cluster."""
        counted, sized, carried = self._received.get((cluster, topic, engine)) or self._source(cluster, topic, engine)
        for batch in batches:
            size = len(batch.data)
            counted.value += batch.record_count
            sized.value += size
            carried.value += size

    def sent(self, virtual_cluster: str, group: str, topic: str, records: int, size: int) -> None:
        """Counts records that were sent in a response to a Fetch. size: bytes."""
        key = (virtual_cluster, group, topic)
        counted, sized = self._sent.get(key) or self._receiver(*key)
        counted.value += records
        sized.value += size

    def committed(self, virtual_cluster: str, group: str, error: ErrorCode) -> None:
        """Counts a member's commit of one partition that was answered."""
        label = self._groups.admit(group, (virtual_cluster,))
        self._events.commits.labels(virtual_cluster, label, error.name).inc()

    def redelivered(self, virtual_cluster: str, group: str, records: int) -> None:
        """Counts records that were delivered again."""
        self._events.redelivered.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc(records)

    def gone(self, virtual_cluster: str, group: str, offsets: int) -> None:
        """Counts unsettled offsets that are gone upstream."""
        self._events.gone.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc(offsets)

    def given_up(self, virtual_cluster: str, group: str, offsets: int) -> None:
        """Counts offsets that share members rejected, or that were delivered to them too often. They are settled
        without a dead letter."""
        self._events.given_up.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc(offsets)

    def dead_letter(self, virtual_cluster: str, group: str) -> None:
        """Counts a record that was written to its dead-letter topic."""
        self._events.dead_letters.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc()

    def dead_letter_failed(self, virtual_cluster: str, group: str) -> None:
        """Counts a record that could not be written to its dead-letter topic. It will be tried again."""
        self._events.dead_letter_failures.labels(virtual_cluster, self._groups.admit(group, (virtual_cluster,))).inc()

    def request(self, virtual_cluster: str, api: str, error: ErrorCode, seconds: float) -> None:
        """Counts a request that was answered `seconds` after it arrived."""
        key = (virtual_cluster, api, error)
        found = self._requests.get(key)
        if found is None:
            counter = self._events.requests.labels(virtual_cluster, api, error.name)
            found = self._requests[key] = (counter, self._events.request_seconds.labels(virtual_cluster, api))
        found[0].value += 1
        found[1].observe(seconds)

    def protocol_error(self, virtual_cluster: str, reason: str) -> None:
        """Counts a connection that was closed because of a request of its client. reason: one of a fixed set."""
        self._events.protocol_errors.labels(virtual_cluster, reason).inc()

    def authentication(self, virtual_cluster: str, mechanism: str, result: str) -> None:
        """Counts an authentication that succeeded or failed. mechanism, result: each one of a fixed set."""
        self._events.authentications.labels(virtual_cluster, mechanism, result).inc()

    def refusal(self, virtual_cluster: str, api: str, operation: str, resource_type: str) -> None:
        """Counts a request that the rules refused."""
        self._events.refusals.labels(virtual_cluster, api, operation, resource_type).inc()

    def tls_failure(self, virtual_cluster: str, reason: str) -> None:
        """Counts a TLS handshake that failed. reason: one of a fixed set."""
        self._events.tls_failures.labels(virtual_cluster, reason).inc()

    def connection_closed(self, virtual_cluster: str, reason: str) -> None:
        """Counts a connection that was refused or closed because of a limit. reason: one of a fixed set."""
        self._events.connections_closed.labels(virtual_cluster, reason).inc()

    def throttled(self, virtual_cluster: str, api: str) -> None:
        """Counts a request above a quota: it was answered, and its connection rests."""
        self._events.throttled.labels(virtual_cluster, api).inc()

    def violation(self, virtual_cluster: str) -> None:
        """Counts a pool that was closed because an invariant was violated."""
        self._events.violations.labels(virtual_cluster).inc()

    def upstream_commit(self, cluster: str, *, stored: bool) -> None:
        """Counts an upstream commit that has ended. stored: False if a part of it was refused or not answered."""
        self._events.upstream_commits.labels(cluster, "stored" if stored else "failed").inc()

    def journal(self, events: int, result: str) -> None:
        """Counts events of the delivery journal. result: "written" or "dropped"."""
        self._events.journal.labels(result).inc(events)

    def engine_failed(self, cluster: str) -> None:
        """Counts an engine that failed because of a bug, and is replaced."""
        self._events.engine_failures.labels(cluster).inc()

    def task_failed(self, task: str) -> None:
        """Counts a failure of a task that no code awaits. task: one of a fixed set."""
        self._events.task_failures.labels(task).inc()

    def loop_lag(self, seconds: float) -> None:
        """Takes the time by which a callback of the event loop came later than it was due."""
        self._events.loop_lag.observe(seconds)

    # Prometheus does not see a new series as a rise. So series that alerts watch exist, at 0, before anything happens.

    def watch_virtual_cluster(self, virtual_cluster: str) -> None:
        self._events.violations.labels(virtual_cluster)

    def watch_task(self, task: str) -> None:
        self._events.task_failures.labels(task)

    def watch_group(self, virtual_cluster: str, group: str, cluster: str) -> None:
        """Called when a pool begins to consume from a cluster."""
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
        """Removes the series of a pool that has ended, which makes room for those of another group."""
        label = self._groups.forget(group, (virtual_cluster,))
        for key in [key for key in self._sent if key[:2] == (virtual_cluster, group)]:
            del self._sent[key]
        if label is not None:
            self._events.forget({"virtual_cluster": virtual_cluster, "group": label})

    # A series is remembered after the first look-up, unless a label is OTHER. It stands for many names, and remembering
    # them would use ever more memory.

    def _source(
        self, cluster: str, topic: str, engine: str
    ) -> tuple[FastCounterSeries, FastCounterSeries, FastCounterSeries]:
        labels = (cluster, self._topics.admit(topic))
        events = self._events
        series = events.records_in.labels(*labels), events.bytes_in.labels(*labels)
        found = (*series, events.engine_bytes_in.labels(cluster, engine))
        if OTHER not in labels:
            self._received[cluster, topic, engine] = found
        return found

    def _receiver(self, virtual_cluster: str, group: str, topic: str) -> tuple[FastCounterSeries, FastCounterSeries]:
        labels = (virtual_cluster, self._groups.admit(group, (virtual_cluster,)), self._topics.admit(topic))
        pair = self._events.records_out.labels(*labels), self._events.bytes_out.labels(*labels)
        if OTHER not in labels:
            self._sent[virtual_cluster, group, topic] = pair
        return pair

    # States

    def _collected(self) -> Iterator[Metric | None]:
        families = {family: _family(family) for family in FAMILIES}
        totals: dict[tuple[MetricDefinition, tuple[str, ...]], float] = {}
        seen: dict[str, set[tuple[Scope, str]]] = {name: set() for name in self._passing}
        samples = (sample for collect in tuple(self._collectors) for sample in collect())
        for number, sample in enumerate(samples):
            key = (sample.family, self._bounded(sample, seen))
            totals[key] = totals.get(key, 0.0) + sample.value
            if number % PART == 0:
                yield None
        for name, labels in self._passing.items():
            labels.keep_only(seen[name])
        for number, ((family, values), total) in enumerate(totals.items()):
            families[family].add_metric(values, total)
            if number % PART == 0:
                yield None
        for metric in families.values():
            yield from _parts(metric)

    def _bounded(self, sample: MetricSample, seen: dict[str, set[tuple[Scope, str]]]) -> tuple[str, ...]:
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

        def fast_counter(name: str, text: str, *labels: str) -> FastCounter:
            return FastCounter(f"kafka_mesh_{name}", text, labels, registry)

        source, receiver = ("cluster", "topic"), ("virtual_cluster", "group", "topic")
        self.records_in = fast_counter("records_in", "Records received from upstream.", *source)
        self.bytes_in = fast_counter("bytes_in", "Bytes of record batches received from upstream.", *source)
        self.engine_bytes_in = fast_counter(
            "engine_bytes_in", "Bytes of record batches received from upstream, by engine.", "cluster", "engine"
        )
        self.records_out = fast_counter("records_out", "Records sent to members.", *receiver)
        self.bytes_out = fast_counter("bytes_out", "Bytes of record batches sent to members.", *receiver)
        self.commits = counter("commits", "Commits of members, by partition.", "virtual_cluster", "group", "result")
        self.redelivered = counter("redelivered_records", "Records delivered once more.", "virtual_cluster", "group")
        pool = ("virtual_cluster", "group")
        self.gone = counter("gone_offsets", "Offsets gone upstream before they were acknowledged; skipped.", *pool)
        self.given_up = counter(
            "given_up_offsets", "Offsets that share members rejected or got too often, without a dead letter.", *pool
        )
        self.dead_letters = counter("dead_letters", "Records written to a dead-letter topic.", *pool)
        self.dead_letter_failures = counter("dead_letter_failures", "Dead letters that could not be written.", *pool)
        self.requests = fast_counter("requests", "Requests answered.", "virtual_cluster", "api", "error")
        self.request_seconds = FastHistogram(
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
            "Requests that the rules did not allow.",
            *("virtual_cluster", "api", "operation", "resource_type"),
        )
        self.tls_failures = counter("tls_failures", "TLS handshakes that failed.", "virtual_cluster", "reason")
        self.connections_closed = counter(
            "connections_closed", "Connections refused or closed for a limit.", "virtual_cluster", "reason"
        )
        self.throttled = counter("throttled_requests", "Requests above a quota.", "virtual_cluster", "api")
        self.violations = counter(
            "pool_violations", "Pools closed because an invariant was violated.", "virtual_cluster"
        )
        self.upstream_commits = counter("upstream_commits", "Commits to upstream groups.", "cluster", "result")
        self.engine_failures = counter("engine_failures", "Engines that failed and were replaced.", "cluster")
        self.task_failures = counter("task_failures", "Failures of tasks of the process, which continues.", "task")
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


class _Part:
    """A part of a metric, which Prometheus' client can write."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def _parts(metric: Metric) -> Iterator[Metric]:
    for start in range(0, max(len(metric.samples), 1), PART):
        part = Metric(metric.name, metric.documentation, metric.type)
        part.samples = metric.samples[start : start + PART]
        yield part
