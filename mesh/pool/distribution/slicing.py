"""Parts of batches: what of one is still to be processed, when some of it is settled, or kept for somebody else.

A compressed batch is unpacked for that, and whatever is cut gets a new checksum. So one that is damaged, as it may be
on a broker's disk, is not cut: it is delivered whole, as Kafka would do, and its clients say what they think of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.pool.common.outbox import PoolParts
from mesh.pool.state.ledger import keep_unsettled
from mesh.pool.state.partition import Partition
from mesh.pool.state.window import Delivery
from mesh.records.batch import Batch, CorruptBatch
from mesh.records.runs import from_offset, join_runs, keep_spans, rebase, singles
from mesh.records.spans import Span


class Slicing:
    def __init__(self, parts: PoolParts) -> None:
        self._outbox = parts.outbox

    def keep(self, partition: Partition, batch: Batch, spans: Sequence[Span]) -> list[Batch]:
        """What of a batch lies in these spans (ascending); of one that is damaged all, from the first of them on.

        Nobody else may hold what lies between them, or behind them.
        """
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
            self._tell(partition, batch, problem)
            return [Batch(batch.data, batch.base, spans[0].first, batch.last, batch.record_count)]

    def cut_front(self, partition: Partition, delivery: Delivery, batch: Batch) -> Batch:
        """The delivery's batch, without the records in front of what is left of it. A client that stands below would
        take them for records that it is given; one that stands where the delivery begins passes over them."""
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

    def cut(self, partition: Partition, batch: Batch, span: Span) -> list[Batch]:
        """What of a single batch lies in a span, while others hold, or have settled, the rest of it. Of one that is
        damaged all bytes, which count for the span: its records cannot be told apart."""
        try:
            return keep_unsettled(partition.ledger, batch, [span])
        except CorruptBatch as problem:
            self._tell(partition, batch, problem)
            return [Batch(batch.data, batch.base, span.first, span.last, batch.record_count)]

    def cut_apart(self, partition: Partition, batch: Batch, span: Span) -> list[Batch]:
        """Each record in a span of a batch or run by itself; of one that is damaged all, as one."""
        try:
            return keep_unsettled(
                partition.ledger, batch, [Span(offset, offset) for offset in range(span.first, span.last + 1)]
            )
        except CorruptBatch as problem:
            self._tell(partition, batch, problem)
            return [Batch(batch.data, batch.base, span.first, span.last, batch.record_count)]

    def clip(self, partition: Partition, batches: Sequence[Batch], span: Span) -> tuple[list[Batch], str]:
        """What of batches that were read again lies in the span, up to the first that is damaged and ends beyond it;
        and what is wrong with that one, "" if there is none such."""
        clipped: list[Batch] = []
        for batch in batches:
            first, last = max(batch.first, span.first), min(batch.last, span.last)
            if first > last:
                continue
            try:
                clipped += keep_spans(batch, [Span(first, last)])
            except CorruptBatch as problem:
                if batch.marks:
                    parts, damage = self.clip(partition, singles(batch), span)
                    clipped += parts
                    if damage:
                        return clipped, damage
                    continue
                if batch.last > last:
                    return clipped, f"the batch at offset {batch.base} is damaged: {problem}"
                self._tell(partition, batch, problem)
                clipped.append(Batch(batch.data, batch.base, first, last, batch.record_count))
        return clipped, ""

    def _tell(self, partition: Partition, batch: Batch, problem: CorruptBatch) -> None:
        fields = {
            "partition": str(partition.source),
            "span": str(Span(batch.first, batch.last)),
            "reason": str(problem),
        }
        self._outbox.report("a batch is damaged and is delivered whole", fields, "warning")


def _within(spans: Sequence[Span], batch: Batch) -> list[Span]:
    """What of them lies in a batch."""
    return [
        Span(max(span.first, batch.first), min(span.last, batch.last))
        for span in spans
        if span.first <= batch.last and span.last >= batch.first
    ]


def can_be_cut(batch: Batch) -> bool:
    """Whether its records can be told apart."""
    try:
        keep_spans(batch, [Span(batch.first, batch.first)])
    except CorruptBatch:
        return False
    return True
