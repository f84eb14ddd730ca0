"""What of a partition nobody holds, and taking it for a lease: of many spans at once, since one after the other would
cost their square."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.pool.common.history import History
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.state.ledger import keep_unsettled
from mesh.pool.state.partition import Partition, Released
from mesh.pool.state.window import Available
from mesh.records.batch import CorruptBatch
from mesh.records.span_lists import joined, parts_of, within, without
from mesh.records.spans import Span


def available_spans(partition: Partition, spare_suspects: bool, distribution: Distribution) -> list[Span]:
    """Released spans first; then what waits in the backlog and was never acquired; then what the engine has not brought
    yet, up to the last stable offset; as runs, however small the batches are. spare_suspects: what is suspected of
    killing its members is left to them."""
    if not partition.is_active:
        return []
    spans = [entry.span for entry in partition.released.values()]
    spans += _backlog(partition, True, spare_suspects, distribution)
    if not partition.is_full:
        spans += _backlog(partition, False, spare_suspects, distribution) + unread(partition)
    return joined(spans)


def _backlog(partition: Partition, was_sent: bool, spare_suspects: bool, distribution: Distribution) -> list[Span]:
    return [
        entry.span
        for entry in partition.backlog.values()
        if entry.history.was_sent is was_sent and not (spare_suspects and distribution.quarantine.is_suspected(entry))
    ]


def unread(partition: Partition, spans: Sequence[Span] | None = None) -> list[Span]:
    """What is in the log, was not brought by the engine, and is not held by a lease. spans: nothing but these."""
    first, last = max(partition.ledger.received, partition.ledger.committable), partition.end - 1
    if first > last:
        return []
    wanted = [Span(first, last)] if spans is None else within(spans, [Span(first, last)])
    return partition.unleased([part for each in wanted for part in partition.ledger.unsettled(each.first, each.last)])


def obtainable(partition: Partition, spans: Sequence[Span]) -> list[Span]:
    """What of these (ascending, none overlapping) nobody holds, wherever it is; ascending."""
    found = unread(partition, spans)
    found += within(spans, (entry.span for entry in partition.released_in(spans)))
    found += within(spans, (entry.span for entry in partition.backlog_in(spans)))
    return sorted(found, key=_first)


def acquire(
    distribution: Distribution, partition: Partition, spans: Sequence[Span], now: float
) -> list[tuple[Span, History]]:
    """Take what nobody holds of these spans, from wherever it is. What a batch has that cannot be cut is left there."""
    taken = partition.released_unread.take(unread(partition, spans))
    taken += _from_released(partition, spans)
    taken += _from_backlog(distribution, partition, spans)
    distribution.touched.add(partition)
    distribution.wait_for_more(partition, now)
    return _joined(sorted(taken, key=lambda entry: entry[0].first))


def _from_released(partition: Partition, spans: Sequence[Span]) -> list[tuple[Span, History]]:
    taken: list[tuple[Span, History]] = []
    for released in partition.released_in(spans):
        # What is being read again of it comes in vain: its entry is another one from now on.
        del partition.released[released.span.first]
        parts = parts_of(released.span, spans)
        for rest in without([released.span], parts):
            partition.released[rest.first] = Released(rest, released.history, released.avoid)
        taken += [(part, released.history) for part in parts]
    return taken


def _from_backlog(
    distribution: Distribution, partition: Partition, spans: Sequence[Span]
) -> list[tuple[Span, History]]:
    taken: list[tuple[Span, History]] = []
    for available in partition.backlog_in(spans):
        parts = parts_of(available.span, spans)
        try:
            pieces = keep_unsettled(partition.ledger, available.batch, without([available.span], parts))
        except CorruptBatch:
            continue
        distribution.backlogs.take(partition, available)
        for piece in pieces:
            distribution.backlogs.put(partition, Available(piece, available.history, available.avoid))
        taken += [(part, available.history) for part in parts]
    return taken


def _joined(spans: list[tuple[Span, History]]) -> list[tuple[Span, History]]:
    """Neighbours of the same history are one."""
    joined: list[tuple[Span, History]] = []
    for span, history in spans:
        if joined and joined[-1][0].last + 1 == span.first and joined[-1][1] == history:
            joined[-1] = (Span(joined[-1][0].first, span.last), history)
        else:
            joined.append((span, history))
    return joined


def _first(span: Span) -> int:
    return span.first
