"""A collector on this machine: accepts OTLP over HTTP, and keeps the data."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver:
    """A collector. refuses: it answers with an error. headers: of the last request."""

    def __init__(self) -> None:
        self.refuses = False
        self.headers: dict[str, str] = {}
        self._traces: list[ExportTraceServiceRequest] = []
        self._metrics: list[ExportMetricsServiceRequest] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver._take(self.path, gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
                receiver.headers = dict(self.headers)
                self.send_response(400 if receiver.refuses else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def spans(self) -> list[Span]:
        resources = [resource for request in self._traces for resource in request.resource_spans]
        return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]

    @property
    def services(self) -> set[str]:
        """The service names of the senders of spans."""
        resources = [resource.resource for request in self._traces for resource in request.resource_spans]
        return {each.value.string_value for one in resources for each in one.attributes if each.key == "service.name"}

    def metrics(self) -> Iterator[Metric]:
        """The metrics of the last request."""
        for resource in self._metrics[-1].resource_metrics if self._metrics else ():
            for scope in resource.scope_metrics:
                yield from scope.metrics

    def _take(self, path: str, body: bytes) -> None:
        match path:
            case "/v1/traces":
                self._traces.append(ExportTraceServiceRequest.FromString(body))
            case "/v1/metrics":
                self._metrics.append(ExportMetricsServiceRequest.FromString(body))
            case _:
                raise AssertionError(path)
