"""A model of a pool that knows only the pool's notes; compared with the pool after every step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from mesh.pool.common.delivery_events import DeliveryEvent, DeliveryEventType, Holder
from mesh.pool.common.ids import GroupId
from mesh.pool.pool import Pool
from mesh.pool.state.leases import holder_of
from mesh.pool.state.partition import Ownership, Partition
from mesh.records.spans import UpstreamPartition
from tests.pool.checks import offsets_of


@dataclass(slots=True)
class Known:
    """The state of one partition in one group."""

    settled: set[int] = field(default_factory=set)
    held: dict[int, Holder] = field(default_factory=dict)
    empty: set[int] = field(default_factory=set)
    replayed: set[int] = field(default_factory=set)

    def truncate(self, offset: int) -> None:
        self.settled = {each for each in self.settled if each < offset}
        self.empty = {each for each in self.empty if each < offset}
        self.held = {each: holder for each, holder in self.held.items() if each < offset}


class JournalModel:
    def __init__(self) -> None:
        self.known: dict[tuple[GroupId, UpstreamPartition], Known] = defaultdict(Known)
        self.seen: set[DeliveryEventType] = set()

    def add(self, note: DeliveryEvent) -> None:
        known = self.known[note.group, note.partition]
        offsets = range(note.first, note.last + 1)
        self.seen.add(note.kind)
        match note.kind:
            case DeliveryEventType.REVOKED | DeliveryEventType.RESET:
                self.known[note.group, note.partition] = Known()
            case DeliveryEventType.TRUNCATED:
                known.truncate(note.first)
            case _:
                self._of_offsets(note, known, offsets)

    def _of_offsets(self, note: DeliveryEvent, known: Known, offsets: range) -> None:
        assert offsets or note.kind is DeliveryEventType.KNOWN
        match note.kind:
            case DeliveryEventType.KNOWN:
                known.settled.update(offsets)
            case DeliveryEventType.DELIVERED | DeliveryEventType.REDELIVERED | DeliveryEventType.LEASED:
                assert not known.held.keys() & offsets, "nothing is held twice"
                assert note.kind is DeliveryEventType.LEASED or not (known.settled - known.replayed) & set(offsets), (
                    "nothing settled is delivered"
                )
                assert note.deliveries > 0
                known.held.update(dict.fromkeys(offsets, note.holder))
            case DeliveryEventType.CORRECTED:
                assert known.held.keys() >= set(offsets)
                known.held.update(dict.fromkeys(offsets, note.holder))
            case DeliveryEventType.REPLAYED:
                assert known.settled | known.empty >= set(offsets)
                known.replayed.update(offsets)
            case DeliveryEventType.ACKNOWLEDGED:
                self._no_longer_held(known, note, offsets)
                known.replayed.difference_update(offsets)
                known.settled.update(offsets)
            case DeliveryEventType.RELEASED | DeliveryEventType.EXPIRED:
                self._no_longer_held(known, note, offsets)
            case DeliveryEventType.DEAD_LETTERED | DeliveryEventType.GIVEN_UP:
                assert not known.held.keys() & offsets
                known.settled.update(offsets)
            case DeliveryEventType.GONE:
                for offset in offsets:
                    known.held.pop(offset, None)
                known.settled.update(offsets)
            case DeliveryEventType.EMPTY:
                known.empty.update(offsets)  # and they may count with the record behind them
            case DeliveryEventType.DELETED:
                assert not known.settled & set(offsets)
                known.settled.update(offsets)

    @staticmethod
    def _no_longer_held(known: Known, note: DeliveryEvent, offsets: Iterable[int]) -> None:
        for offset in offsets:
            assert known.held.pop(offset) == note.holder, note

    def check(self, pool: Pool, records: dict[UpstreamPartition, list[tuple[int, int]]]) -> None:
        """records: the runs of existing offsets of each partition."""
        for source, partition in pool.partitions.items():
            if partition.ownership is Ownership.UNASSIGNED:
                continue
            known = self.known[pool.group, source]
            held = _held(pool, partition)
            assert known.held == held, (source, known.held.items() ^ held.items())
            ledger = partition.ledger
            top = max(known.settled, default=0)
            unsettled = offsets_of(ledger.unsettled(0, max(top, ledger.received - 1)))
            assert not known.settled & unsettled, (source, known.settled & unsettled)
            for first, last in records.get(source, []):
                existing = set(range(first, min(last + 1, ledger.received)))
                assert existing - unsettled == existing & known.settled, (source, first, last)
                assert not existing & known.empty, (source, first, last)


def _held(pool: Pool, partition: Partition) -> dict[int, Holder]:
    held: dict[int, Holder] = {}
    for member in pool.members:
        for delivery in member.windows.get(partition.source, ()):
            held.update(dict.fromkeys(range(delivery.first, delivery.last + 1), member.holder))
        acquired = member.share.by_partition.get(partition.source, ()) if member.share is not None else ()
        for each in acquired:
            held.update(dict.fromkeys(range(each.span.first, each.span.last + 1), member.holder))
    for leased in partition.leased.values():
        held.update(dict.fromkeys(range(leased.span.first, leased.span.last + 1), holder_of(leased.lease)))
    return held
