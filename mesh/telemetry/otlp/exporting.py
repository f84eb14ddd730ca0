"""Exports spans and metrics to a collector, and logs when that fails."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from mesh.telemetry.logs import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector of telemetry, and its address. endpoint: a base URL. timeout: seconds."""

    endpoint: str
    headers: Mapping[str, str] = field(repr=False)
    ca_file: str | None
    timeout: float
    instance: str
    """The name of this process at the collector."""

    @property
    def resource(self) -> Resource:
        return Resource.create(
            {
                "service.name": "kafka-mesh",
                "service.version": version("kafka-mesh"),
                "service.instance.id": self.instance,
            }
        )

    def url(self, signal: str) -> str:
        return f"{self.endpoint.rstrip('/')}/v1/{signal}"


class ExportOutcome:
    """The outcome of exports: logs once that they fail, and once that they work again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_failing = False
        self._lock = threading.Lock()

    def note(self, *, is_good: bool) -> None:
        with self._lock:
            changed, self._is_failing = self._is_failing is is_good, not is_good
        if changed and is_good:
            log.info("telemetry exported again", path=self._path)
        elif changed:
            log.warning("telemetry cannot be exported", path=self._path)


class OtlpSpanExporter(SpanExporter):
    """Exports spans. Spans that cannot be exported are dropped."""

    def __init__(self, collector: Collector) -> None:
        path = collector.url("traces")
        self._outcome = ExportOutcome(path)
        self._exporter = OTLPSpanExporter(
            path, collector.ca_file, headers=dict(collector.headers), timeout=collector.timeout
        )

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self._outcome.note(is_good=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class Measurements:
    """Exports metrics. It waits, so it is for use in a thread."""

    def __init__(self, collector: Collector) -> None:
        path = collector.url("metrics")
        self._outcome = ExportOutcome(path)
        self._exporter = OTLPMetricExporter(
            path, collector.ca_file, headers=dict(collector.headers), timeout=collector.timeout
        )

    def export(self, data: MetricsData) -> None:
        self._outcome.note(is_good=self._exporter.export(data) is MetricExportResult.SUCCESS)

    def shutdown(self) -> None:
        self._exporter.shutdown()
