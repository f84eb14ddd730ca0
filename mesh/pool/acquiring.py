"""What of a partition nobody holds, and taking it for a lease."""

from __future__ import annotations

from mesh.pool.distribution import Distribution
from mesh.pool.leased import common, cut_out, joined
from mesh.pool.ledger import keep_unsettled
from mesh.pool.partition import Partition, Released
from mesh.pool.redelivery import History
from mesh.pool.window import Available
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
        Span(entry.batch.first, entry.batch.last)
        for entry in partition.backlog.values()
        if entry.history.was_sent is was_sent and not (spare_suspects and distribution.tasting.is_suspected(entry))
    ]


def unread(partition: Partition) -> list[Span]:
    """What is in the log, was not brought by the engine, and is not held by a lease."""
    first, end = max(partition.ledger.received, partition.ledger.committable), partition.end
    return partition.unleased(partition.ledger.unsettled(first, end - 1)) if first < end else []


def acquire(distribution: Distribution, partition: Partition, span: Span, now: float) -> list[tuple[Span, History]]:
    """Take what nobody holds of a span, from wherever it is."""
    taken = partition.ahead.take([part for each in unread(partition) if (part := common(each, span)) is not None])
    taken += _from_released(partition, span)
    taken += _from_backlog(distribution, partition, span)
    distribution.touched.add(partition)
    distribution.wait_for_more(partition, now)
    return _joined(sorted(taken, key=lambda entry: entry[0]))


def _from_released(partition: Partition, span: Span) -> list[tuple[Span, History]]:
    taken: list[tuple[Span, History]] = []
    for released in list(partition.released.values()):
        part = common(released.span, span)
        if part is None:
            continue
        # What is being read again of it comes in vain: its entry is another one from now on.
        del partition.released[released.span.first]
        for rest in cut_out([released.span], part):
            partition.released[rest.first] = Released(rest, released.history, released.shunned)
        taken.append((part, released.history))
    return taken


def _from_backlog(distribution: Distribution, partition: Partition, span: Span) -> list[tuple[Span, History]]:
    taken: list[tuple[Span, History]] = []
    for available in list(partition.backlog.values()):
        whole = Span(available.batch.first, available.batch.last)
        part = common(whole, span)
        if part is None:
            continue
        distribution.backlogs.take(partition, available)
        for piece in keep_unsettled(partition.ledger, available.batch, cut_out([whole], part)):
            distribution.backlogs.put(partition, Available(piece, available.history, available.shunned))
        taken.append((part, available.history))
    return taken


def _joined(spans: list[tuple[Span, History]]) -> list[tuple[Span, History]]:
    """Neighbours that fared alike are one."""
    joined: list[tuple[Span, History]] = []
    for span, history in spans:
        if joined and joined[-1][0].last + 1 == span.first and joined[-1][1] == history:
            joined[-1] = (Span(joined[-1][0].first, span.last), history)
        else:
            joined.append((span, history))
    return joined
