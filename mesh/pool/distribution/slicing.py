"""Parts of batches: cuts a batch when some of it is settled, or reserved for another member.

That takes unpacking a compressed batch, and a cut batch gets a new checksum. So a damaged batch, as from a bad disk of
a broker, is not cut. It is delivered whole, as Kafka would do, and clients report it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.pool.common.outbox import PoolParts
from mesh.pool.state.ledger import keep_unsettled
from mesh.pool.state.partition import Partition
from mesh.pool.state.window import Delivery
from mesh.records.batch import CorruptBatch, RecordBatch
from mesh.records.runs import cut_to_spans, from_offset, join_runs, rebase, singles
from mesh.records.spans import Span


class Slicing:
    """Cuts batches for one pool, and reports damaged ones."""

    def __init__(self, parts: PoolParts) -> None:
        self._outbox = parts.outbox

    def keep(self, partition: Partition, batch: RecordBatch, spans: Sequence[Span]) -> list[RecordBatch]:
        """Returns the parts of a batch in these spans (ascending). Of a damaged batch it returns everything, from the
        first span on. So no other member may hold offsets between the spans, or behind them."""
        try:
            return keep_unsettled(partition.ledger, batch, spans)
        except CorruptBatch as problem:
            if batch.marks:
                return [
                    piece
                    for single in singles(batch)
                    if (its := _within(spans, single))
                    for piece in self.keep(partition, single, its)
                ]
            self._report_damage(partition, batch, problem)
            return [RecordBatch(batch.data, batch.base, spans[0].first, batch.last, batch.record_count)]

    def cut_front(self, partition: Partition, delivery: Delivery, batch: RecordBatch) -> RecordBatch:
        """Returns a delivery's batch without the settled records at its front. A client at a lower position would take
        them for its own; a client at the start of the delivery skips them."""
        span = Span(delivery.first, delivery.last)
        if from_offset(batch, span.first).base >= span.first:
            return batch
        cut, _ = self.clip(partition, [batch], span)
        runs = join_runs([single for each in cut for single in singles(each)])
        if len(runs) != 1:
            return batch
        (whole,) = runs
        whole.first, whole.last = span.first, span.last
        rebase(whole, delivery.base_offset(whole))
        delivery.batch = whole
        return whole

    def cut(self, partition: Partition, batch: RecordBatch, span: Span) -> list[RecordBatch]:
        """Returns the part of a single batch in a span, while other parts are held or settled. Of a damaged batch it
        returns all bytes, as the records of the span: records in it cannot be told apart."""
        try:
            return keep_unsettled(partition.ledger, batch, [span])
        except CorruptBatch as problem:
            self._report_damage(partition, batch, problem)
            return [RecordBatch(batch.data, batch.base, span.first, span.last, batch.record_count)]

    def cut_apart(self, partition: Partition, batch: RecordBatch, span: Span) -> list[RecordBatch]:
        """Returns each record in a span of a batch or run by itself. A damaged batch counts as one record."""
        try:
            return keep_unsettled(
                partition.ledger, batch, [Span(offset, offset) for offset in range(span.first, span.last + 1)]
            )
        except CorruptBatch as problem:
            self._report_damage(partition, batch, problem)
            return [RecordBatch(batch.data, batch.base, span.first, span.last, batch.record_count)]

    def clip(self, partition: Partition, batches: Sequence[RecordBatch], span: Span) -> tuple[list[RecordBatch], str]:
        """Returns the parts of reread batches in the span, up to the first damaged batch that ends beyond it. Also
        returns a description of that damage, "" for none."""
        clipped: list[RecordBatch] = []
        for batch in batches:
            first, last = max(batch.first, span.first), min(batch.last, span.last)
            if first > last:
                continue
            try:
                clipped += cut_to_spans(batch, [Span(first, last)])
            except CorruptBatch as problem:
                if batch.marks:
                    parts, damage = self.clip(partition, singles(batch), span)
                    clipped += parts
                    if damage:
                        return clipped, damage
                    continue
                if batch.last > last:
                    return clipped, f"the batch at offset {batch.base} is damaged: {problem}"
                self._report_damage(partition, batch, problem)
                clipped.append(RecordBatch(batch.data, batch.base, first, last, batch.record_count))
        return clipped, ""

    def _report_damage(self, partition: Partition, batch: RecordBatch, problem: CorruptBatch) -> None:
        fields = {
            "partition": str(partition.source),
            "span": str(Span(batch.first, batch.last)),
            "reason": str(problem),
        }
        self._outbox.report("damaged batch delivered whole", fields, "warning")


def _within(spans: Sequence[Span], batch: RecordBatch) -> list[Span]:
    """Returns the parts of spans in a batch."""
    return [
        Span(max(span.first, batch.first), min(span.last, batch.last))
        for span in spans
        if span.first <= batch.last and span.last >= batch.first
    ]


def can_be_cut(batch: RecordBatch) -> bool:
    """Returns whether the records of a batch can be told apart."""
    try:
        cut_to_spans(batch, [Span(batch.first, batch.first)])
    except CorruptBatch:
        return False
    return True
