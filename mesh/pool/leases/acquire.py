"""Finds the free spans of a partition, and takes them for a lease. Spans are taken together: one by one would cost the
square of their number."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.pool.common.history import History
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.state.ledger import keep_unsettled
from mesh.pool.state.partition import Partition, Released
from mesh.pool.state.window import Available
from mesh.records.batch import CorruptBatch
from mesh.records.span_lists import merge_adjacent, parts_of, within, without
from mesh.records.spans import Span


def available_spans(partition: Partition, spare_suspects: bool, distribution: Distribution) -> list[Span]:
    """Returns the free spans, as runs: released ones first, then new ones of the backlog, then those that the engine
    has not brought yet, up to the high watermark, or the last stable offset under read_committed. spare_suspects:
    whether to leave suspected records to members."""
    if not partition.is_active:
        return []
    spans = [entry.span for entry in partition.released.values() if not partition.is_replayed(entry.span)]
    spans += _backlog(partition, True, spare_suspects, distribution)
    if not partition.is_full:
        spans += _backlog(partition, False, spare_suspects, distribution) + unread(partition)
    return merge_adjacent(spans)


def _backlog(partition: Partition, was_sent: bool, spare_suspects: bool, distribution: Distribution) -> list[Span]:
    return [
        entry.span
        for entry in partition.backlog.values()
        if entry.history.was_sent is was_sent
        and not partition.is_replayed(entry.span)
        and not (spare_suspects and distribution.quarantine.is_suspected(entry))
    ]


def unread(partition: Partition, spans: Sequence[Span] | None = None) -> list[Span]:
    """Returns the offsets in the log that the engine has not brought, and that no lease holds. spans: the only ones to
    consider; None for all."""
    first, last = max(partition.ledger.received, partition.ledger.committable), partition.end - 1
    if first > last:
        return []
    wanted = [Span(first, last)] if spans is None else within(spans, [Span(first, last)])
    return partition.unleased([part for each in wanted for part in partition.ledger.unsettled(each.first, each.last)])


def obtainable(partition: Partition, spans: Sequence[Span]) -> list[Span]:
    """Returns all free parts of these spans (ascending, none overlapping), ascending."""
    found = unread(partition, spans)
    waiting = [entry.span for entry in partition.released_in(spans)]
    waiting += [entry.span for entry in partition.backlog_in(spans)]
    found += within(spans, sorted((span for span in waiting if not partition.is_replayed(span)), key=_first))
    return sorted(found, key=_first)


def acquire(
    distribution: Distribution, partition: Partition, spans: Sequence[Span], now: float
) -> list[tuple[Span, History]]:
    """Takes all free parts of these spans, and returns them with their histories. Parts of a batch that cannot be cut
    stay."""
    taken = partition.released_unread.take(unread(partition, spans))
    taken += _from_released(partition, spans)
    taken += _from_backlog(distribution, partition, spans)
    distribution.touched.add(partition)
    distribution.requeue_ineligible(partition, now)
    return _merge_adjacent(sorted(taken, key=lambda entry: entry[0].first))


def _from_released(partition: Partition, spans: Sequence[Span]) -> list[tuple[Span, History]]:
    taken: list[tuple[Span, History]] = []
    for released in partition.released_in(spans):
        # The rest gets new entries, so a reread of this one is ignored.
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


def _merge_adjacent(spans: list[tuple[Span, History]]) -> list[tuple[Span, History]]:
    """Joins neighbouring spans that have the same history."""
    merged: list[tuple[Span, History]] = []
    for span, history in spans:
        if merged and merged[-1][0].last + 1 == span.first and merged[-1][1] == history:
            merged[-1] = (Span(merged[-1][0].first, span.last), history)
        else:
            merged.append((span, history))
    return merged


def _first(span: Span) -> int:
    return span.first
