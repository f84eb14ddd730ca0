"""Range leases: a batch engine holds runs of upstream offsets of a pool and reads them upstream itself.

A lease is a holder beside the members' windows: what it holds has left the backlog, is cut out of what the engines
bring, and comes back when the lease ends. It stands in the metadata of the partition's upstream commit before it is
answered, and is held after a restart until its deadline, at least for `HELD_AFTER_RESTART`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from mesh.apis.answers import Ticket
from mesh.pool.common.history import Cause
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.fetch.serving import Serving
from mesh.pool.leases.acquire import available_spans
from mesh.pool.leases.choose import Chosen, LeaseChoice
from mesh.pool.leases.held import HeldLeases, Named
from mesh.pool.leases.presence import Presence
from mesh.pool.leases.store import LeaseStore, Needed
from mesh.pool.offsets.commits import Commits
from mesh.pool.state.incarnations import EndedLeases
from mesh.pool.state.leases import (
    LONGEST_TTL,
    Acknowledgement,
    Claim,
    HolderId,
    Lease,
    LeaseBacklog,
    LeaseGranted,
    LeaseId,
    LeaseRequest,
    LeaseSettled,
    NotStored,
    PartitionBacklog,
    Range,
    StoredLease,
    UnknownLease,
)
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.partition import Partition
from mesh.records.span_lists import apart, below, count
from mesh.records.spans import TopicName

HELD_AFTER_RESTART = 120.0
"""Seconds that a lease is held at least when it was found upstream: its holder may not have been able to renew it."""
WEIGH_WITHIN = 2.0
"""Seconds that a request in bytes waits for first records, which say how large they are."""
NAMED_WITHIN = 2.0
"""Seconds that a request which waits is given to learn the ids of the topics: what is leased without one cannot be told
from other records by another process."""
GATHER_FOR = 1.0
"""Seconds for which a request that waits goes on to take its part of what comes, once there is some: beside members
that keep up it would be answered with a few records each time, and have next to none of them all."""


class Leases:
    """The leases of one pool."""

    def __init__(self, parts: PoolParts, topics: VirtualTopics, serving: Serving, commits: Commits) -> None:
        self._settings = parts.settings
        self._serving = serving
        self._held = HeldLeases(parts.settings, topics, serving, commits)
        self._choosing = LeaseChoice(serving, commits, self._held)
        self._timers = parts.timers
        self._outbox = parts.outbox
        self._leases: dict[LeaseId, Lease] = {}
        self._ended = EndedLeases()
        self._storing = LeaseStore(parts)
        self._presence = Presence(parts)
        self._weighed: set[TopicName] = set()
        """Of which somebody wanted leases in bytes."""

    def __len__(self) -> int:
        return len(self._leases)

    def are_wanted(self, now: float) -> bool:
        """Whether the pool is to stay for them though it has no member."""
        return bool(self._leases or self._storing.requests) or self._presence.is_there(now)

    @property
    def want_records(self) -> bool:
        """Whether the engines are to read some, though nobody is there who would take them: how large are they?."""
        return bool(self._weighed) and self._choosing.are_unweighed(self._weighed)

    # Requests

    def create(self, ticket: Ticket, request: LeaseRequest, now: float) -> None:
        """Answered with LeaseGranted when it is stored upstream, or NotStored."""
        self._presence.heard(now)
        for lease in [lease for lease in self._leases.values() if lease.holder == request.holder]:
            if lease.id != request.completed:
                self._end(lease, Cause.LEFT, now)
        if request.most_bytes is not None:
            self._weighed.update(request.topics)
        self._look(ticket, request, now + request.wait, now)

    def renew(self, ticket: Ticket, id: LeaseId, holder: HolderId, ttl: float, now: float) -> None:
        """Answered with LeaseGranted or UnknownLease, at once; the new deadline is stored with the next commit."""
        self._presence.heard(now)
        lease = self._leases.get(id)
        if lease is None or lease.holder != holder:
            self._answer(ticket, UnknownLease())
            return
        self._prolong(lease, ttl, now)
        self._answer(ticket, LeaseGranted(id, lease.deadline, tuple(self._held.ranges(lease))))

    def claim(self, ticket: Ticket, claim: Claim, now: float) -> None:
        """Hold exactly these, whatever happened since they were leased; answered with LeaseSettled, NotStored, or
        NoRoom. A holder that claims a lease that has ended did not acknowledge it: what is settled of it others have
        processed."""
        self._presence.heard(now)
        self._claim(ticket, claim, now + claim.wait, now)

    def _claim(self, ticket: Ticket, claim: Claim, until: float, now: float) -> None:
        known = self._leases.get(claim.id)
        if known is not None and known.holder != claim.holder:
            self._answer(ticket, UnknownLease())
            return
        has_ended = known is None
        lease = known or self._ended_one(claim.id, claim.holder, now)
        if self._held.are_elsewhere(lease, claim.ranges) and now < until:
            self._presence.park(ticket, until, lambda then: self._claim(ticket, claim, until, then), now)
            return
        named, absent = self._held.name(lease, claim.ranges, has_ended)
        if (refused := self._held.has_no_room(lease, named, is_acknowledged=False)) is not None:
            self._answer(ticket, refused)
            return
        for each in named:
            self._held.take_again(lease, each, now)
        if has_ended:
            self._begin(lease, now)
        self._prolong(lease, claim.ttl, now)
        settled = self._outcome(lease, named, absent, is_settled_lost=has_ended)
        self._end_if_empty(lease)
        self._storing.answer(ticket, settled, self._needed(settled.done), now)

    def acknowledge(self, ticket: Ticket, wanted: Acknowledgement, now: float) -> None:
        """What has been acknowledged already counts as done. A lease that is known acknowledges what it holds, and one
        that has ended what nobody has taken since; neither what is of another life of the log. Answered with
        LeaseSettled when that is stored, with UnknownLease when all of a lease is meant that has ended, with NoRoom
        when what would still be held is cut into too many runs, or with NotStored."""
        self._presence.heard(now)
        lease, ranges = self._leases.get(wanted.id), wanted.ranges
        if (lease is not None and lease.holder != wanted.holder) or (lease is None and ranges is None):
            self._answer(ticket, UnknownLease())
            return
        if ranges is None:
            assert lease is not None
            ranges = tuple(self._held.ranges(lease))
        has_ended = lease is None
        lease = lease or self._ended_one(wanted.id, wanted.holder, now)
        named, absent = self._held.name(lease, ranges, has_ended)
        if (refused := self._held.has_no_room(lease, named, is_acknowledged=True)) is not None:
            self._answer(ticket, refused)
            return
        for part in named:
            self._held.take_again(lease, part, now)
        settled = self._outcome(lease, named, absent, is_settled_lost=False)
        for each in settled.done:
            self._held.settle(lease, each)
        if wanted.size and settled.done:
            self._choosing.note_sizes(settled.done, wanted.size)
        self._end_if_empty(lease)
        self._storing.answer(ticket, settled, self._needed(settled.done, is_acknowledged=True), now)

    def release(self, ticket: Ticket, id: LeaseId, holder: HolderId, now: float) -> None:
        """Everybody may have again what it holds. Answered at once, also when it has ended already."""
        lease = self._leases.get(id)
        if lease is not None and lease.holder == holder:
            self._end(lease, Cause.LEFT, now)
        self._answer(ticket, LeaseSettled())

    def look(self, ticket: Ticket, topics: tuple[TopicName, ...], wait: float, now: float) -> None:
        """Answered with LeaseBacklog, when it is known to whom the partitions are assigned, or after `wait` seconds."""
        self._presence.heard(now)
        self._look_at(ticket, topics, now, now + wait, now)

    def _look_at(self, ticket: Ticket, topics: tuple[TopicName, ...], since: float, until: float, now: float) -> None:
        if self._is_early(topics, since, now) and now < until:
            self._presence.park(ticket, until, lambda then: self._look_at(ticket, topics, since, until, then), now)
        else:
            self._answer(ticket, LeaseBacklog(tuple(self.backlog(topics))))

    # What is told of them

    def view(self) -> list[tuple[Lease, tuple[Range, ...]]]:
        return [(lease, tuple(self._held.ranges(lease))) for lease in self._leases.values()]

    def backlog(self, topics: Iterable[TopicName]) -> list[PartitionBacklog]:
        return [
            PartitionBacklog(
                partition.source,
                count(available_spans(partition, False, self._serving.distribution)),
                sum(len(leased.span) for leased in partition.leased.values()),
                partition.lag,
                partition.end,
            )
            for partition in self._held.partitions(topics)
            if partition.is_active
        ]

    # What happens around them

    def restore(self, partition: Partition, stored: Iterable[StoredLease], end: int, now: float) -> None:
        """What was leased of a partition when its commit was stored; what is beyond the end of its log is not. Whoever
        stored the deadline may have had another clock."""
        for each in stored:
            earliest, latest = now + HELD_AFTER_RESTART, now + LONGEST_TTL
            deadline = min(max(each.deadline - self._settings.epoch, earliest), latest)
            lease = self._leases.get(each.id) or self._new(each.id, each.holder, deadline - now, now)
            self._held.restore(lease, partition, below(each.spans, end))
            self._end_if_empty(lease)

    def records_came(self, now: float) -> None:
        """Members have not been given them yet: who waits for something to lease looks first, or members that keep up
        would leave nothing."""
        self._presence.look_again(now)

    def stored(self) -> None:
        """A step ends, in which something may have been stored."""
        if self._storing.requests:
            self._storing.stored()

    def close(self) -> None:
        """The pool ends: nobody will be answered later."""
        for ticket in self._presence.close():
            self._answer(ticket, NotStored())
        self._storing.close()
        self._leases.clear()

    # How

    def _answer(self, ticket: Ticket, result: object) -> None:
        self._outbox.answer(ticket, result)

    def _take_part(self, now: float) -> None:
        """Members leave something for leases from now on, until nobody has wanted any for a while."""
        if not self._serving.distribution.window_limits.are_there_leases:
            self._serving.beside_leases(True, now)
            self._timers.at(now + self._settings.presence, self._still_take_part)

    def _still_take_part(self, now: float) -> None:
        if self.are_wanted(now):
            self._timers.at(now + self._settings.presence, self._still_take_part)
        else:
            self._serving.beside_leases(False, now)

    def _new(self, id: LeaseId, holder: HolderId, ttl: float, now: float) -> Lease:
        lease = Lease(id, holder, now + ttl)
        self._begin(lease, now)
        return lease

    def _begin(self, lease: Lease, now: float) -> None:
        self._take_part(now)
        self._leases[lease.id] = lease
        self._timers.at(lease.deadline, lambda then: self._expire(lease, then))

    def _ended_one(self, id: LeaseId, holder: HolderId, now: float) -> Lease:
        """One that is not known any more, or never was."""
        return Lease(id, holder, now, dict(self._ended.lives(id)))

    def _prolong(self, lease: Lease, ttl: float, now: float) -> None:
        if now + ttl > lease.deadline:
            lease.deadline = now + ttl
            self._held.changed(lease)

    def _expire(self, lease: Lease, now: float) -> None:
        if self._leases.get(lease.id) is not lease:
            return
        if now < lease.deadline:
            self._timers.at(lease.deadline, lambda then: self._expire(lease, then))
            return
        offsets = sum(len(each.span) for each in self._held.ranges(lease))
        fields = {"holder": lease.holder, "lease": lease.id, "offsets": offsets}
        self._outbox.report("a lease expired", fields, "warning")
        self._end(lease, Cause.EXPIRED, now)

    def _end(self, lease: Lease, cause: Cause, now: float) -> None:
        self._leases.pop(lease.id, None)
        self._ended.remember(lease.id, lease.lives)
        self._held.give_back(lease, cause, now)

    def _look(self, ticket: Ticket, request: LeaseRequest, until: float, now: float) -> None:
        """Lease what there is; if there is nothing, or partitions are being assigned, look again in a while, as long as
        the request waits."""
        self._take_part(now)
        chosen = self._choosing.choose(request)
        since = until - request.wait
        is_early = self._is_early(request.topics, since, now) or self._is_unweighed(request, since, now)
        if (not chosen or is_early) and now < until:
            self._presence.park(ticket, until, lambda then: self._look(ticket, request, until, then), now)
            return
        if not chosen:
            self._answer(ticket, LeaseGranted(request.id, now, ()))
            return
        lease = self._new(request.id, request.holder, request.ttl, now)
        self._gather(ticket, request, lease, chosen, min(until, now + GATHER_FOR), now)

    def _gather(
        self, ticket: Ticket, request: LeaseRequest, lease: Lease, chosen: Iterable[Chosen], until: float, now: float
    ) -> None:
        """Hold what was chosen, and what comes until then beside members; then answer."""
        if self._leases.get(lease.id) is not lease:  # its holder has asked for another one, or it expired
            self._answer(ticket, LeaseGranted(lease.id, now, ()))
            return
        for partition, of_it in groupby(chosen, key=lambda each: each[0]):
            self._held.hold(lease, partition, apart(span for _, span in of_it), now)
        rest = self._choosing.rest_of(request, lease)
        if now < until and rest is not None and self._serving.distribution.members:
            seen = self._choosing.behind_all(request.topics)  # of which members have their half

            def go_on(then: float) -> None:
                self._gather(ticket, request, lease, self._choosing.choose(rest, seen), until, then)

            self._presence.park(ticket, until, go_on, now)
            return
        self._prolong(lease, request.ttl, now)
        ranges = tuple(self._held.ranges(lease))
        granted = LeaseGranted(lease.id, lease.deadline, ranges)
        self._end_if_empty(lease)
        never = Cause.NEVER_FETCHED
        self._storing.answer(ticket, granted, self._needed(ranges), now, lambda then: self._end(lease, never, then))

    def _is_early(self, topics: Iterable[TopicName], since: float, now: float) -> bool:
        """Whether it will be known soon whose the partitions are, and of which topics."""
        is_new = now < since + NAMED_WITHIN
        return self._held.are_awaited(topics) or (is_new and self._held.are_unnamed(topics))

    def _is_unweighed(self, request: LeaseRequest, since: float, now: float) -> bool:
        is_new = request.most_bytes is not None and now < since + WEIGH_WITHIN
        return is_new and self._choosing.are_unweighed(request.topics)

    def _end_if_empty(self, lease: Lease) -> None:
        if not self._held.partitions_of(lease):
            self._leases.pop(lease.id, None)
            self._ended.remember(lease.id, lease.lives)

    def _outcome(
        self, lease: Lease, named: Iterable[Named], absent: Iterable[Range], is_settled_lost: bool
    ) -> LeaseSettled:
        outcomes = [self._held.outcome(lease, each, is_settled_lost) for each in named]
        done = tuple(each for outcome in outcomes for each in outcome[0])
        return LeaseSettled(done, tuple(each for outcome in outcomes for each in outcome[1]), tuple(absent))

    def _needed(self, ranges: Iterable[Range], is_acknowledged: bool = False) -> list[Needed]:
        """What is to be stored before a request is answered that has done so much."""
        highest: dict[Ledger, int] = {}
        for each in ranges:
            ledger = self._serving.partitions[each.partition].ledger
            highest[ledger] = max(highest.get(ledger, -1), each.span.last)
        return [Needed(ledger, ledger.version, last if is_acknowledged else None) for ledger, last in highest.items()]
