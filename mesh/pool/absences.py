"""Members between two Fetches: what comes meanwhile is kept for whose turn it is, for as long as it is usually away.

Small batches are gone before a slower client asks again: without this whoever asks more often has more
(docs/decisions/0036). Nothing is kept in a pool of one member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mesh.pool.member import Member
from mesh.pool.partition import Absence, Partition, Rank
from mesh.pool.ranking import Ranking
from mesh.pool.settings import Policy
from mesh.pool.timers import Timers
from mesh.pool.waiting_room import FEW, rank_of
from mesh.pool.window import Available

LONGEST = 0.25
"""Seconds: who usually is away for longer does not just ask again, but works, and the others are not to wait for it."""
PATIENCE = 2.0
"""How many times as long as it usually is away something is kept for a member."""
FORGETTING = 0.1
"""How much of what is usual is forgotten each time that it was shorter."""
MOST_BYTES = 256 << 10
"""Kept for one member: this is about small batches, larger ones are there when it asks."""
MOST_BYTES_TOGETHER = 8 << 20


class Absences:
    """expired: told of a member that something was kept for and that does not come; again after `lock_timeout`."""

    def __init__(self, policy: Policy, timers: Timers, expired: Callable[[Member, float], None]) -> None:
        self._policy = policy
        self._timers = timers
        self._expired = expired
        self._absences: dict[Member, Absence] = {}
        self._ranks: Ranking[Absence] = Ranking()
        self.size = 0
        """Bytes kept for all of them."""

    def begin(self, member: Member, now: float) -> None:
        """It was answered. Whoever is given batches in other orders than by what it had gets none beforehand."""
        usual = member.usually_away
        if self._policy is not Policy.LEAST_LOADED or not 0 < usual <= LONGEST or member in self._absences:
            return
        absence = Absence(member, now + PATIENCE * usual, rank_of(self._policy, member, member.slot, now))
        self._absences[member] = absence
        self._ranks.add(absence.rank, absence)

    def end(self, member: Member) -> Absence | None:
        """It asks again, or is gone; what was kept is the caller's."""
        absence = self._absences.pop(member, None)
        if absence is None:
            return None
        self._ranks.remove(absence.rank)
        self.size -= absence.size
        for partition in absence.kept:
            partition.keepers.pop(absence, None)
        if absence.timer is not None:
            absence.timer.cancel()
        return absence

    def rank(self, member: Member, now: float) -> None:
        """What it holds has changed."""
        absence = self._absences.get(member)
        if absence is not None:
            self._ranks.remove(absence.rank)
            absence.rank = rank_of(self._policy, member, member.slot, now, absence.count)
            self._ranks.add(absence.rank, absence)

    def candidates(self, partition: Partition, before: Rank | None, now: float) -> Iterator[Absence]:
        """Who would get a batch of this partition if it asked just now: a few, of those in front of `before`."""
        index = looked_at = 0
        while index < len(self._ranks) and looked_at < FEW and self.size < MOST_BYTES_TOGETHER:
            absence = self._ranks.at(index)
            looked_at += 1
            if before is not None and absence.rank > before:
                return
            if absence.until <= now and absence.timer is None:
                self.end(absence.member)
                continue
            index += 1
            if absence.until > now and partition.source in absence.member.windows and absence.size < MOST_BYTES:
                yield absence

    def keep(self, absence: Absence, partition: Partition, available: Available, now: float) -> None:
        absence.kept.setdefault(partition, []).append(available)
        partition.keepers[absence] = None
        absence.size += available.size
        self.size += available.size
        absence.count += len(available)
        self.rank(absence.member, now)
        if absence.timer is None:
            absence.timer = self._timers.at(absence.until, lambda then: self._expired(absence.member, then))

    def release(self, member: Member, lock_timeout: float, now: float) -> dict[Partition, list[Available]]:
        """It is overdue. What others may be given now: what none of them has gone past, or they would have it out of
        order; after `lock_timeout` seconds all of it, as of a member that hangs with what it holds."""
        absence = self._absences.get(member)
        if absence is None:
            return {}
        released: dict[Partition, list[Available]] = {}
        is_over = now >= absence.until + lock_timeout
        for partition, entries in list(absence.kept.items()):
            free: list[Available] = []
            passed: list[Available] = []
            for each in entries:
                (free if is_over or each.batch.first > partition.given else passed).append(each)
            if free:
                released[partition], absence.kept[partition] = free, passed
                absence.size -= (size := sum(each.size for each in free))
                self.size -= size
                absence.count -= sum(map(len, free))
                if not passed:
                    del absence.kept[partition]
                    partition.keepers.pop(absence, None)
        if absence.kept:
            self.rank(member, now)
            absence.timer = self._timers.at(absence.until + lock_timeout, lambda then: self._expired(member, then))
        else:
            self.end(member)
        return released

    def take(self, partition: Partition) -> list[Available]:
        """What was kept of this partition, for anybody: it is kept no more."""
        taken: list[Available] = []
        for absence in partition.keepers:
            for available in absence.kept.pop(partition):
                absence.size -= available.size
                self.size -= available.size
                absence.count -= len(available)
                taken.append(available)
        partition.keepers.clear()
        return taken

    def asked(self, member: Member, now: float) -> None:
        """Learn how long it usually is away, from a Fetch; rather too long than too short."""
        if member.answered is not None:
            away = now - member.answered
            usual = member.usually_away
            member.usually_away = away if away > usual else usual - (usual - away) * FORGETTING
            member.answered = None
