"""Spans of deliveries: one for each run of offsets that a member gets, until they are settled or released.

Names and attributes follow OpenTelemetry's semantic conventions for messaging (1.36, "development"). Names without a
convention begin with `kafka_mesh.`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, Tracer

from mesh.pool.common.delivery_events import DeliveryEvent, DeliveryEventType
from mesh.records.batch import CorruptBatch, RecordBatch
from mesh.records.decode import decode_records

_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
MOST_LINKS: Final = 100
_BEGINS: Final = frozenset({DeliveryEventType.DELIVERED, DeliveryEventType.REDELIVERED, DeliveryEventType.LEASED})
_ENDS: Final = {
    DeliveryEventType.ACKNOWLEDGED: False,
    DeliveryEventType.RELEASED: False,
    DeliveryEventType.EXPIRED: True,
    DeliveryEventType.DEAD_LETTERED: True,
    DeliveryEventType.GIVEN_UP: True,
    DeliveryEventType.GONE: True,
    DeliveryEventType.TRUNCATED: True,
    DeliveryEventType.CORRECTED: False,
}
"""Events that end a delivery. The value is True if the end is an error."""
_VOIDS: Final = frozenset({DeliveryEventType.REVOKED, DeliveryEventType.RESET})
PoolPartition = tuple[str, str, str, str, int]
"""A partition of a pool: virtual cluster, group, cluster, topic, partition."""


@dataclass(slots=True)
class _Open:
    """A span that has not ended. left: the number of offsets that are neither settled nor given back."""

    span: Span
    first: int
    last: int
    left: int


class DeliverySpans:
    """Makes spans from delivery events. one_in: one of this many deliveries has a span. limit: the most open spans;
    above it, the oldest ends."""

    def __init__(self, tracer: Tracer, one_in: int, limit: int) -> None:
        self._tracer = tracer
        self._one_in = one_in
        self._limit = limit
        self._count = 0
        self._open: OrderedDict[int, tuple[PoolPartition, _Open]] = OrderedDict()
        """The open spans by number, in the order in which they began."""
        self._by_partition: dict[PoolPartition, dict[int, _Open]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, virtual_cluster: str, event: DeliveryEvent, time: int) -> None:
        """Takes an event, which may begin or end spans. time: ns since the epoch."""
        source = event.partition
        partition = virtual_cluster, event.group, source.cluster, source.topic, source.partition
        if event.kind in _BEGINS:
            self._count += 1
            if self._count % self._one_in == 0:
                self._begin(partition, event, time)
        elif event.kind in _ENDS:
            self._end(partition, event, time)
        elif event.kind in _VOIDS:
            for number in list(self._by_partition.get(partition, ())):
                self._close(number, event.kind.value, time, is_error=False)

    def end_all(self, time: int) -> None:
        """Ends all spans, when no more events come. time: ns since the epoch."""
        for number in list(self._open):
            self._close(number, "unknown", time, is_error=False)

    def _begin(self, partition: PoolPartition, event: DeliveryEvent, time: int) -> None:
        if len(self._open) >= self._limit:
            self._close(next(iter(self._open)), "unknown", time, is_error=False)
        links = list(links_of(event.batch)) if event.batch is not None else []
        span = self._tracer.start_span(
            f"deliver {partition[3]}",
            kind=SpanKind.CONSUMER,
            attributes=_attributes(partition, event),
            links=links,
            start_time=time,
        )
        if event.produced >= 0:
            span.add_event("produced", timestamp=event.produced * 1_000_000)
        opened = _Open(span, event.first, event.last, event.last - event.first + 1)
        self._open[self._count] = partition, opened
        self._by_partition.setdefault(partition, {})[self._count] = opened

    def _end(self, partition: PoolPartition, event: DeliveryEvent, time: int) -> None:
        for number, opened in list(self._by_partition.get(partition, {}).items()):
            count = min(event.last, opened.last) - max(event.first, opened.first) + 1
            if count <= 0:
                continue
            opened.left -= count
            about = {"kafka_mesh.first": max(event.first, opened.first), "kafka_mesh.count": count}
            opened.span.add_event(event.kind.value, about, time)
            if opened.left <= 0:
                self._close(number, event.kind.value, time, is_error=_ENDS[event.kind])

    def _close(self, number: int, outcome: str, time: int, *, is_error: bool) -> None:
        partition, opened = self._open.pop(number)
        its = self._by_partition[partition]
        del its[number]
        if not its:
            del self._by_partition[partition]
        opened.span.set_attribute("kafka_mesh.outcome", outcome)
        if is_error:
            opened.span.set_status(Status(StatusCode.ERROR, outcome))
        opened.span.end(time)


def links_of(batch: RecordBatch) -> Iterator[Link]:
    """Yields links to the traces of the batch's producers, from the `traceparent` headers of records (W3C Trace
    Context). There are at most `MOST_LINKS`, each once."""
    try:
        records = decode_records(batch)
    except CorruptBatch:
        return
    seen: set[tuple[int, int]] = set()
    for record in records:
        for name, value in record.headers:
            if name != "traceparent" or value is None or len(seen) >= MOST_LINKS:
                continue
            found = _TRACEPARENT.fullmatch(value.decode(errors="replace"))
            if found is None:
                continue
            ids = int(found[1], 16), int(found[2], 16)
            if ids not in seen:
                seen.add(ids)
                yield Link(SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(int(found[3], 16))))


def _attributes(partition: PoolPartition, event: DeliveryEvent) -> dict[str, str | int]:
    virtual_cluster, group, cluster, topic, index = partition
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": "deliver",
        "messaging.operation.type": "process",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(index),
        "messaging.consumer.group.name": group,
        "messaging.client.id": event.holder.client_id,
        "messaging.batch.message_count": event.last - event.first + 1,
        "messaging.kafka.offset": event.first,
        "client.address": event.holder.host,
        "kafka_mesh.virtual_cluster": virtual_cluster,
        "kafka_mesh.cluster": cluster,
        "kafka_mesh.member": event.holder.member or event.holder.lease,
        "kafka_mesh.last_offset": event.last,
        "kafka_mesh.deliveries": event.deliveries,
    }
