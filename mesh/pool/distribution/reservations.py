"""Members between two Fetches: what comes meanwhile is kept for whose turn it is, for as long as it is usually away.

Small batches are gone before a slower client asks again: without this whoever asks more often has more
(docs/decisions/0036). Nothing is kept in a pool of one member.
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
"""Seconds: who usually is away for longer does not just ask again, but works, and the others are not to wait for it."""
PATIENCE = 2.0
"""How many times as long as it usually is away something is kept for a member."""
FORGETTING = 0.1
"""How much of what is usual is forgotten each time that it was shorter."""
MOST_BYTES = 256 << 10
"""Kept for one member: this is about small batches, larger ones are there when it asks."""
MOST_BYTES_TOGETHER = 8 << 20
PLENTY = 128 << 10
"""Bytes of a backlog of which nothing is kept: some of it will be there when a member asks again, and each part that is
cut off for one makes an answer of its own (docs/decisions/0056)."""


class Reservations:
    """Batches that are kept for members between two Fetches.

    returned: partitions with records that a timer has put back into their backlogs: these are for others now.
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
        """Bytes kept for all of them."""

    # Members go and come

    def reserve(self, member: Member, now: float) -> None:
        """It was answered, and will ask again."""
        if not member.parked:
            member.answered = now
            if len(self._window_limits.members) > 1:
                self._begin(member, now)

    def claim(self, member: Member, partition_fetches: Iterable[PartitionFetch], now: float) -> list[Partition]:
        """It asks for records of some partitions. Records kept for it go to the backlogs of those that are returned,
        and it takes them before other members are served.

        Records of a partition that it does not ask for stay kept if others have gone past them: these would have them
        out of order. librdkafka leaves out a partition whose queue is full, for a second (`fetch.queue.backoff.ms`).
        """
        if member.answered is not None:
            # Learn how long it usually is away; rather too long than too short.
            away = now - member.answered
            usual = member.usually_away
            member.usually_away = away if away > usual else usual - (usual - away) * FORGETTING
            member.answered = None
        reservation = self._reservations.get(member)
        if reservation is None or not reservation.kept:
            return self.end(member)
        asked = {partition_fetch.partition for partition_fetch in partition_fetches}
        reservation.until = min(reservation.until, now)
        free = self._free(reservation, lambda partition, each: partition in asked or each.first > partition.given)
        for partition, entries in free.items():
            for available in entries:
                self._backlogs.put(partition, available)
        if reservation.kept:
            self.rank(member, now)
        else:
            self.end(member)
        return list(free)

    def end(self, member: Member) -> list[Partition]:
        """Nothing is kept for it any more; what was is in the backlogs of these."""
        reservation = self._reservations.pop(member, None)
        if reservation is None:
            return []
        self._ranks.remove(reservation.rank)
        self.size -= reservation.size
        for partition, entries in reservation.kept.items():
            partition.reserving.pop(reservation, None)
            for available in entries:
                self._backlogs.put(partition, available)
        if reservation.timer is not None:
            reservation.timer.cancel()
        return list(reservation.kept)

    def rank(self, member: Member, now: float) -> None:
        """What it holds has changed."""
        reservation = self._reservations.get(member)
        if reservation is not None:
            self._ranks.remove(reservation.rank)
            reservation.rank = rank_of(self._policy, member, member.slot, now, reservation.count)
            self._ranks.add(reservation.rank, reservation)

    # Batches come

    def keep(self, partition: Partition, best: Fetch | None, now: float) -> bool:
        """Keep the oldest batch, or a share of a run, for whoever should have it rather than the best that waits."""
        for reservation in self._candidates(partition, best.rank if best is not None else None, now):
            member = reservation.member
            available = self._quarantine.first_for(partition, member)
            if available is None or available.history.was_sent:
                return False
            count = fitting(
                available.batch, MOST_BYTES - reservation.size, self._shares.room(member) - reservation.count
            )
            if count and len(available) <= self._shares.most(available, member):
                count = min(count, self._shares.share(available))
                self._keep_for(reservation, partition, self._backlogs.take_some(partition, available, count), now)
                return True
        return False

    def take(self, partition: Partition) -> list[Available]:
        """What was kept of this partition, for anybody: it is kept no more."""
        taken: list[Available] = []
        for reservation in partition.reserving:
            for available in reservation.kept.pop(partition):
                reservation.size -= available.size
                self.size -= available.size
                reservation.count -= len(available)
                taken.append(available)
        partition.reserving.clear()
        return taken

    # How

    def _begin(self, member: Member, now: float) -> None:
        """Whoever is given batches in other orders than by what it had gets none beforehand."""
        usual = member.usually_away
        if self._policy is not Policy.LEAST_LOADED or not 0 < usual <= LONGEST or member in self._reservations:
            return
        reservation = Reservation(member, now + PATIENCE * usual, rank_of(self._policy, member, member.slot, now))
        self._reservations[member] = reservation
        self._ranks.add(reservation.rank, reservation)

    def _candidates(self, partition: Partition, before: Rank | None, now: float) -> Iterator[Reservation]:
        """Who would get a batch of this partition if it asked just now: a few, of those in front of `before`."""
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
                and partition.source in reservation.member.windows
                and reservation.size < MOST_BYTES
            ):
                yield reservation

    def _keep_for(self, reservation: Reservation, partition: Partition, available: Available, now: float) -> None:
        reservation.kept.setdefault(partition, []).append(available)
        partition.reserving[reservation] = None
        reservation.size += available.size
        self.size += available.size
        reservation.count += len(available)
        self.rank(reservation.member, now)
        if reservation.timer is None:
            reservation.timer = self._timers.at(reservation.until, lambda then: self._overdue(reservation.member, then))

    def _overdue(self, member: Member, now: float) -> None:
        """It does not come: the others are given what they can have in its order."""
        released = self._release(member, now)
        for partition, entries in released.items():
            for available in entries:
                self._backlogs.put(partition, available)
        self.returned += released

    def _release(self, member: Member, now: float) -> dict[Partition, list[Available]]:
        """What others may be given now: what none of them has gone past, or they would have it out of order; after
        `lock_timeout` all of it, as of a member that hangs with what it holds."""
        reservation = self._reservations.get(member)
        if reservation is None:
            return {}
        is_over = now >= reservation.until + self._lock_timeout
        released = self._free(reservation, lambda partition, each: is_over or each.first > partition.given)
        if reservation.kept:
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
        """Stop to keep what is free, and return it."""
        freed: dict[Partition, list[Available]] = {}
        for partition, entries in list(reservation.kept.items()):
            free = [each for each in entries if is_free(partition, each)]
            if not free:
                continue
            freed[partition], reservation.kept[partition] = free, [each for each in entries if each not in free]
            reservation.size -= (size := sum(each.size for each in free))
            self.size -= size
            reservation.count -= sum(map(len, free))
            if not reservation.kept[partition]:
                del reservation.kept[partition]
                partition.reserving.pop(reservation, None)
        return freed
