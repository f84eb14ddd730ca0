"""What must hold after every step of a pool."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from mesh.pool.common.offset_states import SETTLED, TRANSITIONS, OffsetState
from mesh.pool.distribution.reservations import MOST_BYTES, MOST_BYTES_TOGETHER
from mesh.pool.pool import Pool
from mesh.pool.state.partition import Ownership, Partition
from mesh.records.spans import Span

if TYPE_CHECKING:
    from tests.pool.harness import World


@cache
def reachable(state: OffsetState) -> frozenset[OffsetState]:
    """Where an offset may be after some time, including its own place."""
    found, open_ones = {state}, [state]
    while open_ones:
        here = open_ones.pop()
        new = {after for (before, _), after in TRANSITIONS.items() if before is here} - found
        found |= new
        open_ones += new
    return frozenset(found)


def check_pool(world: World, pool: Pool) -> None:
    """The invariant, and conservation: every offset received is in exactly one place."""
    members = list(pool.members)
    for partition in pool.partitions.values():
        partition.check()
        assert partition.backlog_bytes == sum(entry.size for entry in partition.backlog.values())
        places: dict[int, str] = {}
        _place(places, "backlog", [(e.first, e.last) for e in partition.backlog.values()])
        _place(places, "released", [(e.span.first, e.span.last) for e in partition.released.values()])
        _place(places, "dying", [(e.batch.first, e.batch.last) for e in partition.dead_lettering.values()])
        _place(places, "resting", [(e.span.first, e.span.last) for e in partition.resting.values()])
        leased = {offset for e in partition.leased.values() for offset in range(e.span.first, e.span.last + 1)}
        _place(places, "leased", [(e.span.first, e.span.last) for e in partition.leased.values()])
        for reservation in partition.reservations:
            _place(places, "kept", [(e.first, e.last) for e in reservation.records[partition]])
        for partition_fetch in partition.parked.values():
            _place(places, "collected", [(e.first, e.last) for e in partition_fetch.collected or ()])
        locks = 0
        for member in members:
            holding = member.share.by_partition.get(partition.source) if member.share is not None else None
            if holding is not None:
                spans = [(acquired.span.first, acquired.span.last) for acquired in holding]
                _place(places, "acquired", spans)
                assert holding.held == sum(last - first + 1 for first, last in spans)
                assert spans == sorted(spans)
                locks += holding.held
            window = member.windows.get(partition.source)
            if window is not None:
                spans = [(delivery.first, delivery.last) for delivery in window]
                _place(places, "in flight", spans)
                assert window.held == sum(last - first + 1 for first, last in spans)
        locks += sum(
            len(entry)
            for fetch, wanted in partition.parked.items()
            if fetch.terms is not None
            for entry in wanted.collected or ()
        )
        assert partition.acquired_offsets == locks, (partition, partition.acquired_offsets, locks)
        ledger = partition.ledger
        if ledger.replayed is not None and partition.ownership is not Ownership.UNASSIGNED:
            again = offsets_of(ledger.replayed.left if ledger.replayed.is_cancelled else ledger.replayed.out)
            assert again <= places.keys(), (partition, again - places.keys())
            assert all(ledger.is_settled(offset) for offset in offsets_of(ledger.replayed.left))
            for offset in again:
                del places[offset]
        if partition.ownership is not Ownership.UNASSIGNED:
            unsettled = offsets_of(ledger.unsettled(ledger.committable, ledger.received - 1))
            settled = set(range(ledger.committable, ledger.received)) - unsettled
            waits = set() if ledger._empty_from is None else set(range(ledger._empty_from, ledger.received))
            assert unsettled - waits <= places.keys(), (partition, unsettled - waits - places.keys())
            assert not waits & places.keys(), (partition, waits & places.keys())
            # Leased offsets may turn out not to exist upstream: then they are settled as well.
            assert not (settled - leased) & places.keys(), (partition, (settled - leased) & places.keys())
            assert all(ledger.committable <= offset < ledger.received for offset in places if offset not in leased)
            _check_transitions(world, partition, places)
    _check_waiting(pool)
    is_suspected = pool.serving.distribution.quarantine.is_suspected
    assert all(p.suspects == sum(map(is_suspected, p.backlog.values())) for p in pool.partitions.values())
    assert pool.serving.distribution.backlogs.size == sum(p.backlog_bytes for p in pool.partitions.values())
    assert pool.serving.distribution.backlogs.offsets == sum(p.backlog_offsets for p in pool.partitions.values())
    assert all(p.backlog_offsets == sum(map(len, p.backlog.values())) for p in pool.partitions.values())
    _check_budgets(world, pool)
    for member in members:
        sent = sum(window.held for window in member.windows.values())
        if member.share is not None:
            assert not sent
            sent = sum(holding.held for holding in member.share.by_partition.values())
        partition_fetches = [
            partition_fetch
            for fetch in pool.serving.distribution.parked.of(member)
            for partition_fetch in fetch.partition_fetches
        ]
        collected = sum(
            len(entry) for partition_fetch in partition_fetches for entry in partition_fetch.collected or ()
        )
        assert member.in_flight == sent + collected, member


def offsets_of(spans: Iterable[Span]) -> set[int]:
    return {offset for span in spans for offset in range(span.first, span.last + 1)}


def _check_budgets(world: World, pool: Pool) -> None:
    """Checks that the pool asks for no more records when a budget is full."""
    settings = pool._settings
    upstream = world.upstreams[world.group]
    over = pool.serving.distribution.backlogs.size >= settings.pool_budget
    for partition in pool.partitions.values():
        full = partition.backlog_bytes >= settings.partition_budget or (over and partition.backlog_bytes)
        if full and partition.is_active and partition.source.cluster in upstream.subscribed:
            idle = partition.source.cluster in upstream.idle
            assert idle or partition.source in upstream.paused, partition
    collected = [
        available.size
        for fetch in pool.serving.fetches
        for partition_fetch in fetch.partition_fetches
        for available in partition_fetch.collected or ()
    ]
    assert pool.serving.distribution.collected_bytes == sum(collected)
    reservations = pool.serving.distribution.reservations
    assert (
        reservations.size
        == sum(each.size for each in reservations._reservations.values())
        <= MOST_BYTES_TOGETHER + MOST_BYTES
    )
    kept = pool.serving.distribution.backlogs.size + pool.serving.sent_batches.size + sum(collected) + reservations.size
    assert pool.serving.sent_batches.size <= settings.replay_budget
    assert world.memory.used >= kept


def _check_waiting(pool: Pool) -> None:
    """Checks that a parked Fetch waits on a partition only while it may take a batch from it, and takes available
    ones."""
    for partition in pool.partitions.values():
        for fetch, partition_fetch in partition.parked.items():
            distribution = pool.serving.distribution
            stopped = distribution.is_stopped or partition.source.cluster in distribution.withheld
            stopped = stopped or distribution.window_limits.is_full(fetch.member)
            may = not stopped and not partition_fetch.needs_resend and partition.is_active
            may = may and not partition_fetch.is_locked and not partition_fetch.window.awaits_join
            if may and not partition.backlog:
                assert fetch in partition.waiting, (partition, fetch)
            if may and partition.backlog:
                assert pool.serving.distribution.quarantine.first_for(partition, fetch.member) is None, (
                    partition,
                    fetch,
                )
                assert fetch in partition.ineligible, (partition, fetch)
            if not may:
                assert fetch not in partition.waiting
                assert fetch not in partition.ineligible
        assert partition.waiting.keys() | partition.ineligible.keys() <= partition.parked.keys()


_STATES = {
    "backlog": OffsetState.AVAILABLE,
    "kept": OffsetState.AVAILABLE,
    "released": OffsetState.AVAILABLE,
    "dying": OffsetState.GIVEN_UP,
    "resting": OffsetState.RESTING,
    "collected": OffsetState.ACQUIRED,
    "in flight": OffsetState.ACQUIRED,
    "acquired": OffsetState.ACQUIRED,
    "leased": OffsetState.ACQUIRED,
}


def _check_transitions(world: World, partition: Partition, places: dict[int, str]) -> None:
    """Checks that the table of transitions allows each change of an offset since the last check."""
    key = (world.group, partition.source)
    ledger, before = world.states.get(key, (None, {}))
    now = {offset: _STATES[place] for offset, place in places.items()}
    if ledger is partition.ledger:
        for offset, state in before.items():
            possible = reachable(state)
            if offset in now:
                assert now[offset] in possible, (partition, offset, state, now[offset])
            else:
                assert possible & SETTLED, (partition, offset, state)
        settled = range(partition.ledger.committable, partition.ledger.received)
        assert not any(offset in now for offset in settled if offset not in before and offset < world.seen.get(key, 0))
    world.states[key] = (partition.ledger, now)
    # Offsets without a record at the end of the read part count with the next batch.
    waits_from = partition.ledger._empty_from
    world.seen[key] = partition.ledger.received if waits_from is None else waits_from


def _place(places: dict[int, str], place: str, spans: list[tuple[int, int]]) -> None:
    for first, last in spans:
        for offset in range(first, last + 1):
            assert offset not in places, f"offset {offset} is {places[offset]} and {place}"
            places[offset] = place
