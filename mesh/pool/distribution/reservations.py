"""Reserves small batches for members between two Fetches, about as long as each member usually takes to ask again.

Otherwise small batches would be gone before a slower client asks again, and members that ask more often would get more
(docs/decisions/0036). A pool with one member needs no reservations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.settings import Policy
from mesh.pool.distribution.backlogs import Backlogs
from mesh.pool.distribution.fetch_queue import FEW, Ranking, rank_of
from mesh.pool.distribution.quarantine import Quarantine
from mesh.pool.distribution.shares import Shares
from mesh.pool.distribution.window_limits import WindowLimits
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition, PartitionFetch, Rank, Reservation
from mesh.pool.state.window import Available
from mesh.records.runs import fitting

LONGEST = 0.25
"""Seconds. A member that is usually away for longer is processing records, and other members must not wait for it."""
PATIENCE = 2.0
"""How long a reservation lasts, as a multiple of the member's usual absence."""
FORGETTING = 0.1
"""The part of the difference by which a shorter absence shortens the usual one."""
MOST_BYTES = 256 << 10
"""The most bytes reserved for one member. Reservations are for small batches; a large backlog needs none."""
MOST_BYTES_TOGETHER = 8 << 20
PLENTY = 128 << 10
"""The bytes of a backlog above which nothing is reserved. Some of it is left when a member asks again, and each
reserved part would need a separate answer (docs/decisions/0056)."""


class Reservations:
    """Batches that are reserved for members between two Fetches.

    returned: partitions with records that a timer has put back into their backlogs, for other members.
    """

    def __init__(
        self,
        parts: PoolParts,
        window_limits: WindowLimits,
        quarantine: Quarantine,
        shares: Shares,
        backlogs: Backlogs,
    ) -> None:
        self._policy = parts.settings.policy
        self._lock_timeout = parts.settings.lock_timeout
        self._timers = parts.timers
        self._window_limits = window_limits
        self._quarantine = quarantine
        self._shares = shares
        self._backlogs = backlogs
        self.returned: list[Partition] = []
        self._reservations: dict[Member, Reservation] = {}
        self._ranks: Ranking[Reservation] = Ranking()
        self.size = 0
        """Bytes reserved for all members together."""

    # The absence of members

    def begin(self, member: Member, now: float) -> None:
        """Begins a reservation for a member that was answered and will ask again."""
        if not member.parked:
            member.answered_at = now
            if len(self._window_limits.members) > 1:
                self._begin(member, now)

    def claim(self, member: Member, partition_fetches: Iterable[PartitionFetch], now: float) -> list[Partition]:
        """Ends the reservation of a member that asks for records of some partitions. Puts its records into the backlogs
        of the returned partitions. The member takes them before other members are served.

        Records of partitions that it does not ask for stay reserved if other members have got later records: they would
        get these out of order. librdkafka leaves out a partition with a full queue for a second
        (`fetch.queue.backoff.ms`).
        """
        if member.answered_at is not None:
            # Learn how long the member is usually away. An estimate that is too long is better than one that is too
            # short.
            away = now - member.answered_at
            usual = member.usually_away
            member.usually_away = away if away > usual else usual - (usual - away) * FORGETTING
            member.answered_at = None
        reservation = self._reservations.get(member)
        if reservation is None or not reservation.records:
            return self.end(member)
        asked = {partition_fetch.partition for partition_fetch in partition_fetches}
        reservation.until = min(reservation.until, now)
        free = self._free(
            reservation, lambda partition, each: partition in asked or each.first > partition.highest_given
        )
        for partition, entries in free.items():
            for available in entries:
                self._backlogs.put(partition, available)
        if reservation.records:
            self.rank(member, now)
        else:
            self.end(member)
        return list(free)

    def end(self, member: Member) -> list[Partition]:
        """Ends a member's reservation. Puts its records into the backlogs of the returned partitions."""
        reservation = self._reservations.pop(member, None)
        if reservation is None:
            return []
        self._ranks.remove(reservation.rank)
        self.size -= reservation.size
        for partition, entries in reservation.records.items():
            partition.reservations.pop(reservation, None)
            for available in entries:
                self._backlogs.put(partition, available)
        if reservation.timer is not None:
            reservation.timer.cancel()
        return list(reservation.records)

    def rank(self, member: Member, now: float) -> None:
        """Ranks a member's reservation again, after a change of its records in flight."""
        reservation = self._reservations.get(member)
        if reservation is not None:
            self._ranks.remove(reservation.rank)
            reservation.rank = rank_of(self._policy, member, member.slot, now, reservation.count)
            self._ranks.add(reservation.rank, reservation)

    # Arrival of batches

    def reserve_oldest(self, partition: Partition, best: Fetch | None, now: float) -> bool:
        """Reserves the oldest batch, or a share of a run, for a member that should get it before the best waiting
        Fetch. Returns whether it did."""
        for reservation in self._candidates(partition, best.rank if best is not None else None, now):
            member = reservation.member
            available = self._quarantine.first_for(partition, member)
            if available is None or available.history.was_sent:
                return False
            count = fitting(
                available.batch, MOST_BYTES - reservation.size, self._shares.room(member, now) - reservation.count
            )
            if count and len(available) <= self._shares.most_offsets(available, member, now):
                count = min(count, self._shares.share_in_batches(available, member))
                self._add(reservation, partition, self._backlogs.take_some(partition, available, count), now)
                return True
        return False

    def take(self, partition: Partition) -> list[Available]:
        """Removes and returns all records that are reserved of a partition."""
        taken: list[Available] = []
        for reservation in partition.reservations:
            for available in reservation.records.pop(partition):
                reservation.size -= available.size
                self.size -= available.size
                reservation.count -= len(available)
                taken.append(available)
        partition.reservations.clear()
        return taken

    # Internals

    def _begin(self, member: Member, now: float) -> None:
        """Begins a reservation, under `least_loaded` only."""
        usual = member.usually_away
        if self._policy is not Policy.LEAST_LOADED or not 0 < usual <= LONGEST or member in self._reservations:
            return
        reservation = Reservation(member, now + PATIENCE * usual, rank_of(self._policy, member, member.slot, now))
        self._reservations[member] = reservation
        self._ranks.add(reservation.rank, reservation)

    def _candidates(self, partition: Partition, before: Rank | None, now: float) -> Iterator[Reservation]:
        """Yields the reservations of members that would get a batch of this partition if they asked now. They rank
        before `before`; only a few are checked."""
        index = looked_at = 0
        while index < len(self._ranks) and looked_at < FEW and self.size < MOST_BYTES_TOGETHER:
            reservation = self._ranks.at(index)
            looked_at += 1
            if before is not None and reservation.rank > before:
                return
            if reservation.until <= now and reservation.timer is None:
                self.end(reservation.member)
                continue
            index += 1
            if (
                reservation.until > now
                and (window := reservation.member.windows.get(partition.source)) is not None
                and not window.awaits_join
                and reservation.size < MOST_BYTES
            ):
                yield reservation

    def _add(self, reservation: Reservation, partition: Partition, available: Available, now: float) -> None:
        reservation.records.setdefault(partition, []).append(available)
        partition.reservations[reservation] = None
        reservation.size += available.size
        self.size += available.size
        reservation.count += len(available)
        self.rank(reservation.member, now)
        if reservation.timer is None:
            reservation.timer = self._timers.at(reservation.until, lambda then: self._overdue(reservation.member, then))

    def _overdue(self, member: Member, now: float) -> None:
        """Stops waiting for a member that does not ask again. Others get the records that they can have in order."""
        released = self._release(member, now)
        for partition, entries in released.items():
            for available in entries:
                self._backlogs.put(partition, available)
        self.returned += released

    def _release(self, member: Member, now: float) -> dict[Partition, list[Available]]:
        """Returns the batches that others may get now. Without those below records that other members have got, since
        they would come out of order. After `lock_timeout` all of them, as from a hanging member."""
        reservation = self._reservations.get(member)
        if reservation is None:
            return {}
        is_over = now >= reservation.until + self._lock_timeout
        released = self._free(reservation, lambda partition, each: is_over or each.first > partition.highest_given)
        if reservation.records:
            self.rank(member, now)
            reservation.timer = self._timers.at(
                reservation.until + self._lock_timeout, lambda then: self._overdue(member, then)
            )
        else:
            self.end(member)
        return released

    def _free(
        self, reservation: Reservation, is_free: Callable[[Partition, Available], bool]
    ) -> dict[Partition, list[Available]]:
        """Takes the records out of a reservation that are free for others, and returns them."""
        freed: dict[Partition, list[Available]] = {}
        for partition, entries in list(reservation.records.items()):
            free = [each for each in entries if is_free(partition, each)]
            if not free:
                continue
            freed[partition], reservation.records[partition] = free, [each for each in entries if each not in free]
            reservation.size -= (size := sum(each.size for each in free))
            self.size -= size
            reservation.count -= sum(map(len, free))
            if not reservation.records[partition]:
                del reservation.records[partition]
                partition.reservations.pop(reservation, None)
        return freed
