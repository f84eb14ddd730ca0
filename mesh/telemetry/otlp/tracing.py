"""Passes delivery events to a thread of its own, which makes spans from them."""

from __future__ import annotations

import queue
import threading
import time
from typing import Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.telemetry.logs import get_logger
from mesh.telemetry.otlp.delivery_spans import DeliverySpans
from mesh.telemetry.otlp.exporting import Collector, OtlpSpanExporter

log = get_logger(__name__)

CLOSING: Final = 5.0
"""The most seconds for sending the last spans."""
_Entry = tuple[int, str, DeliveryEvent]


class Tracing:
    """Makes spans from delivery events in a thread. Implements `mesh.telemetry.journal.DeliveryLog`. one_in, limit: as
    in `DeliverySpans`. At most `limit` events wait; further ones are dropped, and a warning is logged."""

    def __init__(self, collector: Collector, one_in: int, limit: int, exporter: SpanExporter | None = None) -> None:
        self._provider = TracerProvider(resource=collector.resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OtlpSpanExporter(collector)))
        self._spans = DeliverySpans(self._provider.get_tracer("kafka-mesh"), one_in, limit)
        self._events: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._limit = limit
        self._is_dropping = False
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def add(self, virtual_cluster: str, event: DeliveryEvent) -> None:
        is_full = self._events.qsize() >= self._limit
        if is_full and not self._is_dropping:
            log.warning("spans dropped: too many delivery events")
        self._is_dropping = is_full
        if not is_full:
            self._events.put((time.time_ns(), virtual_cluster, event))

    def close(self) -> None:
        """Takes no more events. Waits for a while until the last spans are sent."""
        self._events.put(None)
        self._thread.join(CLOSING)
        closing = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        closing.start()
        closing.join(CLOSING)

    def _run(self) -> None:
        while (entry := self._events.get()) is not None:
            at, virtual_cluster, event = entry
            try:
                self._spans.add(virtual_cluster, event, at)
            except Exception:
                log.exception("span not made: bug in kafka-mesh")
        self._spans.end_all(time.time_ns())
