"""Range leases: a batch engine holds runs of upstream offsets of a pool, and reads them upstream itself.

A lease holds records as the windows of members do. Its records leave the backlog, are cut out of what the engines
bring, and come back when the lease ends. A lease is stored in the metadata of the partition's upstream commit before
its request is answered. After a restart it is held until its deadline, and at least for `HELD_AFTER_RESTART`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from mesh.apis.answers import Ticket
from mesh.pool.common.effects import LookAtEnds
from mesh.pool.common.history import Cause
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.fetch.serving import Serving
from mesh.pool.leases.acquire import available_spans
from mesh.pool.leases.choose import Chosen, LeaseChoice
from mesh.pool.leases.held import HeldLeases, ResolvedSpans
from mesh.pool.leases.presence import Presence
from mesh.pool.leases.store import LeaseStore, NeededLedger
from mesh.pool.offsets.commits import Commits
from mesh.pool.state.incarnations import EndedLeases
from mesh.pool.state.leases import (
    LONGEST_TTL,
    Acknowledgement,
    Claim,
    EndUnknown,
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
from mesh.records.span_lists import below, count, disjoint
from mesh.records.spans import TopicName

HELD_AFTER_RESTART = 120.0
"""The least seconds for which a lease found upstream is held: its holder may have been unable to renew it."""
SIZES_WITHIN = 2.0
"""Seconds that a request in bytes waits for the first records, which show their size."""
TOPIC_IDS_WITHIN = 2.0
"""Seconds in which a waiting request learns the ids of its topics. Without an id another process cannot distinguish the
leased records from those of a new topic of that name."""
GATHER_FOR = 1.0
"""Seconds for which a waiting request goes on collecting after the first records. Otherwise, beside members that keep
up, each request would get only a few records."""


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
        self._group = parts.group
        self._looks = 0
        self._topics_by_size: set[TopicName] = set()
        """Topics for which a lease in bytes was requested."""

    def __len__(self) -> int:
        return len(self._leases)

    def are_wanted(self, now: float) -> bool:
        """Returns whether the pool must stay for leases although it has no member."""
        return bool(self._leases or self._storing.requests) or self._presence.is_present(now)

    @property
    def want_records(self) -> bool:
        """True if the engines should read some records although no member takes them, to learn their size."""
        return bool(self._topics_by_size) and self._choosing.are_sizes_unknown(self._topics_by_size)

    # Requests

    def create(self, ticket: Ticket, request: LeaseRequest, now: float) -> None:
        """Begins a lease. The answer is LeaseGranted when it is stored upstream, or NotStored."""
        self._presence.note_request(now)
        for lease in [lease for lease in self._leases.values() if lease.holder == request.holder]:
            if lease.id != request.completed:
                self._end(lease, Cause.LEFT, now)
        if request.most_bytes is not None:
            self._topics_by_size.update(request.topics)
        self._look(ticket, request, now + request.wait, now)

    def renew(self, ticket: Ticket, id: LeaseId, holder: HolderId, ttl: float, now: float) -> None:
        """Prolongs a lease. The answer is LeaseGranted or UnknownLease, at once. The new deadline is stored with the
        next commit."""
        self._presence.note_request(now)
        lease = self._leases.get(id)
        if lease is None or lease.holder != holder:
            self._answer(ticket, UnknownLease())
            return
        self._prolong(lease, ttl, now)
        self._answer(ticket, LeaseGranted(id, lease.deadline, tuple(self._held.ranges(lease))))

    def claim(self, ticket: Ticket, claim: Claim, now: float) -> None:
        """Lets a lease hold exactly these ranges again, whether it has ended or not. The answer is LeaseSettled,
        NotStored, or NoRoom. If the lease has ended, it has not acknowledged its settled offsets: others processed
        them, so they are lost."""
        self._presence.note_request(now)
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
        resolved, absent = self._held.resolve(lease, claim.ranges, has_ended)
        if (refused := self._held.has_no_room(lease, resolved, is_acknowledged=False)) is not None:
            self._answer(ticket, refused)
            return
        for each in resolved:
            self._held.take_again(lease, each, now)
        if has_ended:
            self._begin(lease, now)
        self._prolong(lease, claim.ttl, now)
        settled = self._outcome(lease, resolved, absent, is_settled_lost=has_ended)
        self._end_if_empty(lease)
        self._storing.answer(ticket, settled, self._needed(settled.done), now)

    def acknowledge(self, ticket: Ticket, wanted: Acknowledgement, now: float) -> None:
        """Acknowledges ranges of a lease. Ranges that are acknowledged already count as done.

        A living lease acknowledges the offsets that it holds, an ended one those that are still free. Neither
        acknowledges offsets of another incarnation of the log. The answer is LeaseSettled when that is stored,
        UnknownLease for all of an ended lease, NoRoom if the rest would have too many runs, or NotStored.
        """
        self._presence.note_request(now)
        lease, ranges = self._leases.get(wanted.id), wanted.ranges
        if (lease is not None and lease.holder != wanted.holder) or (lease is None and ranges is None):
            self._answer(ticket, UnknownLease())
            return
        if ranges is None:
            assert lease is not None
            ranges = tuple(self._held.ranges(lease))
        has_ended = lease is None
        lease = lease or self._ended_one(wanted.id, wanted.holder, now)
        resolved, absent = self._held.resolve(lease, ranges, has_ended)
        if (refused := self._held.has_no_room(lease, resolved, is_acknowledged=True)) is not None:
            self._answer(ticket, refused)
            return
        for part in resolved:
            self._held.take_again(lease, part, now)
        settled = self._outcome(lease, resolved, absent, is_settled_lost=False)
        for each in settled.done:
            self._held.settle(lease, each)
        if wanted.size and settled.done:
            self._choosing.note_sizes(settled.done, wanted.size)
        self._end_if_empty(lease)
        self._storing.answer(ticket, settled, self._needed(settled.done, is_acknowledged=True), now)

    def release(self, ticket: Ticket, id: LeaseId, holder: HolderId, now: float) -> None:
        """Gives back everything that a lease holds. Answers at once, even if the lease has ended."""
        lease = self._leases.get(id)
        if lease is not None and lease.holder == holder:
            self._end(lease, Cause.LEFT, now)
        self._answer(ticket, LeaseSettled())

    def await_backlog(self, ticket: Ticket, topics: tuple[TopicName, ...], wait: float, now: float) -> None:
        """Answers with LeaseBacklog when the owners of the partitions and the ends of their logs are known. The ends
        are asked for after the request. EndUnknown is the answer if a cluster that is not down does not say one of them
        within `wait` seconds. A cluster that is down delays nothing: the last known ends of its logs count."""
        self._presence.note_request(now)
        self._answer_backlog(ticket, topics, now, now + wait, now)

    def await_ends(self, ticket: Ticket, topics: tuple[TopicName, ...], wait: float, now: float) -> None:
        """The same for the partitions that are assigned already. Its sender does not count as a lease holder."""
        self._answer_ends(ticket, topics, self._look_at_ends(topics), now + wait, now, is_holder=False)

    def _answer_backlog(
        self, ticket: Ticket, topics: tuple[TopicName, ...], since: float, until: float, now: float
    ) -> None:
        if self._is_early(topics, since, now) and now < until:
            self._presence.park(
                ticket, until, lambda then: self._answer_backlog(ticket, topics, since, until, then), now
            )
        else:
            self._answer_ends(ticket, topics, self._look_at_ends(topics), until, now, is_holder=True)

    def _look_at_ends(self, topics: Iterable[TopicName]) -> int:
        """Asks the clusters of these topics for the ends of logs; returns the number of the look."""
        self._looks += 1
        for cluster in dict.fromkeys(each.source.cluster for each in self._held.partitions(topics)):
            self._outbox.put(LookAtEnds(self._group, cluster, self._looks))
        return self._looks

    def _answer_ends(
        self, ticket: Ticket, topics: tuple[TopicName, ...], look: int, until: float, now: float, *, is_holder: bool
    ) -> None:
        def again(then: float) -> None:
            self._answer_ends(ticket, topics, look, until, then, is_holder=is_holder)

        unknown = self._held.with_older_end(topics, look)
        if unknown is None and is_holder:
            unknown = self._held.awaited(topics)
        if unknown is None:
            self._answer(ticket, LeaseBacklog(tuple(self.backlog(topics))))
        elif now < until:
            self._presence.park(ticket, until, again, now, is_holder=is_holder)
        else:
            self._answer(ticket, EndUnknown(unknown))

    # Views

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

    # Events

    def restore(self, partition: Partition, stored: Iterable[StoredLease], end: int, now: float) -> None:
        """Restores the leases in the commit of a partition, except offsets beyond the end of its log. Their deadlines
        are bounded, since the clock of the process that stored them may have differed."""
        for each in stored:
            earliest, latest = now + HELD_AFTER_RESTART, now + LONGEST_TTL
            deadline = min(max(each.deadline - self._settings.epoch, earliest), latest)
            lease = self._leases.get(each.id) or self._new(each.id, each.holder, deadline - now, now)
            self._held.restore(lease, partition, below(each.spans, end))
            self._end_if_empty(lease)

    def records_came(self, now: float) -> None:
        """Lets waiting requests for leases take new records before members get them. Otherwise members that keep up
        would leave nothing."""
        self._presence.look_again(now)

    def stored(self) -> None:
        """Answers requests that are stored. Called at the end of each step."""
        if self._storing.requests:
            self._storing.stored()

    def close(self) -> None:
        """Ends all leases with the pool, and answers the waiting requests."""
        for ticket in self._presence.close():
            self._answer(ticket, NotStored())
        self._storing.close()
        self._leases.clear()

    # Internals

    def _answer(self, ticket: Ticket, result: object) -> None:
        self._outbox.answer(ticket, result)

    def _take_part(self, now: float) -> None:
        """Makes members leave records for leases from now on, until no lease has been wanted for a while."""
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
        """Returns a lease with this id that has ended, or never existed."""
        return Lease(id, holder, now, dict(self._ended.incarnations(id)))

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
        self._outbox.report("lease expired", fields, "warning")
        self._end(lease, Cause.EXPIRED, now)

    def _end(self, lease: Lease, cause: Cause, now: float) -> None:
        self._forget(lease)
        self._ended.remember(lease.id, lease.incarnations)
        self._held.give_back(lease, cause, now)

    def _look(self, ticket: Ticket, request: LeaseRequest, until: float, now: float) -> None:
        """Leases available records. If there are none, or an assignment is in progress, it tries again in a while, as
        long as the request waits. A request with ends waits for assignments only."""
        self._take_part(now)
        chosen = self._choosing.choose(request)
        since = until - request.wait
        is_early = self._is_early(request.topics, since, now) or self._waits_for_sizes(request, since, now)
        must_wait = not chosen if request.ends is None else self._held.are_ends_unknown(request.ends)
        if (must_wait or is_early) and now < until:
            self._presence.park(ticket, until, lambda then: self._look(ticket, request, until, then), now)
            return
        if not chosen:
            moving = self._held.moving(request.ends or ())
            self._answer(ticket, LeaseGranted(request.id, now, ()) if moving is None else EndUnknown(moving))
            return
        lease = self._new(request.id, request.holder, request.ttl, now)
        self._gather(ticket, request, lease, chosen, min(until, now + GATHER_FOR), now)

    def _gather(
        self, ticket: Ticket, request: LeaseRequest, lease: Lease, chosen: Iterable[Chosen], until: float, now: float
    ) -> None:
        """Holds the chosen spans, and collects more records beside members until `until`. Then it answers."""
        if self._leases.get(lease.id) is not lease:  # its holder has asked for another lease, or it has expired
            self._answer(ticket, LeaseGranted(lease.id, now, ()))
            return
        for partition, of_it in groupby(chosen, key=lambda each: each[0]):
            self._held.hold(lease, partition, disjoint(span for _, span in of_it), now)
        rest = self._choosing.rest_of(request, lease)
        if now < until and rest is not None and self._serving.distribution.members:
            seen = self._choosing.behind_all(request.topics)  # of the records known so far, members keep their half

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
        """Returns whether the owners of the partitions, and the ids of their topics, will soon be known."""
        is_new = now < since + TOPIC_IDS_WITHIN
        return self._held.awaited(topics) is not None or (is_new and self._held.lack_topic_ids(topics))

    def _waits_for_sizes(self, request: LeaseRequest, since: float, now: float) -> bool:
        is_new = request.most_bytes is not None and now < since + SIZES_WITHIN
        return is_new and self._choosing.are_sizes_unknown(request.topics)

    def _end_if_empty(self, lease: Lease) -> None:
        if not self._held.partitions_of(lease):
            self._forget(lease)
            self._ended.remember(lease.id, lease.incarnations)

    def _forget(self, lease: Lease) -> None:
        """Forgets a lease, unless its id belongs to another object by now: the same lease, restored from the commit of
        a partition that went away and came back."""
        if self._leases.get(lease.id) is lease:
            del self._leases[lease.id]

    def _outcome(
        self, lease: Lease, resolved: Iterable[ResolvedSpans], absent: Iterable[Range], is_settled_lost: bool
    ) -> LeaseSettled:
        outcomes = [self._held.outcome(lease, each, is_settled_lost) for each in resolved]
        done = tuple(each for outcome in outcomes for each in outcome[0])
        return LeaseSettled(done, tuple(each for outcome in outcomes for each in outcome[1]), tuple(absent))

    def _needed(self, ranges: Iterable[Range], is_acknowledged: bool = False) -> list[NeededLedger]:
        """Returns the versions of ledgers that must be stored before a request with these ranges is answered."""
        highest: dict[Ledger, int] = {}
        for each in ranges:
            ledger = self._serving.partitions[each.partition].ledger
            highest[ledger] = max(highest.get(ledger, -1), each.span.last)
        return [
            NeededLedger(ledger, ledger.version, last if is_acknowledged else None) for ledger, last in highest.items()
        ]
