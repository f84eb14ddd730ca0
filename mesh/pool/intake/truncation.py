"""The truncation of a partition's log, for example by an unclean election.

Below the offset where the logs diverge everything stays: settled offsets, held and leased records, the backlog. From
there on everything is void, and is read again. A plain consumer does the same: its position goes back to the
divergence, and its committed offset stays (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable

from mesh.pool.fetch.serving import Serving
from mesh.pool.state.leases import Leased
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Partition, Released
from mesh.records.spans import Span


def highest_known(partition: Partition) -> int:
    """Returns the highest offset that was received, settled, leased or delivered in vain; -1 if there is none."""
    ledger = partition.ledger
    return max(ledger.received - 1, ledger.highest, partition.released_unread.highest, partition.highest_leased)


def truncate(partition: Partition, offset: int, serving: Serving, members: Iterable[Member]) -> None:
    """Forgets everything from `offset` on. Suspends the partition: no record of it may be delivered until it is
    activated again."""
    distribution = serving.distribution
    for fetch, partition_fetch in list(partition.parked.items()):
        distribution.give_back(fetch, [partition_fetch])
    distribution.suspend(partition)
    serving.rereads.begin_again(partition)
    for member in members:
        window = member.windows.get(partition.source)
        if window is not None:
            distribution.free(member, window.truncate(offset))
        holding = member.share.by_partition.get(partition.source) if member.share is not None else None
        if holding is not None:
            lost = holding.truncate(offset)
            distribution.free(member, lost)
            distribution.acquiring.unlock(partition, lost)
    _truncate_batches(partition, offset, serving)
    for waiting in (partition.released, partition.resting):
        for released in [each for each in waiting.values() if each.span.last >= offset]:
            if released.span.first >= offset:
                del waiting[released.span.first]
            else:
                released.span = Span(released.span.first, offset - 1)
    partition.released_unread.forget_from(offset)
    _truncate_leases(partition, offset)
    partition.ledger.truncate(offset)
    partition.end = min(partition.end, offset)
    partition.highest_given = min(partition.highest_given, offset - 1)
    distribution.touched.add(partition)


def _truncate_batches(partition: Partition, offset: int, serving: Serving) -> None:
    """Drops batches that reach beyond the offset, since they have bytes of the old log. Their remaining offsets are
    read again."""
    cut = [each for each in partition.backlog.values() if each.last >= offset]
    for available in cut:
        serving.distribution.backlogs.take(partition, available)
    dead_lettering = [each for each in partition.dead_lettering.values() if each.batch.last >= offset]
    for available in dead_lettering:
        del partition.dead_lettering[available.batch.first]
    for available in [*cut, *dead_lettering]:
        first = available.first
        if first < offset:
            partition.released[first] = Released(Span(first, offset - 1), available.history, available.avoid)


def _truncate_leases(partition: Partition, offset: int) -> None:
    for leased in [each for each in partition.leased.values() if each.span.last >= offset]:
        del partition.leased[leased.span.first]
        if leased.span.first < offset:
            rest = Span(leased.span.first, offset - 1)
            partition.leased[rest.first] = Leased(rest, leased.history, leased.lease)
