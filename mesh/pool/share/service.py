"""The service of share members of one pool: ShareFetch and ShareAcknowledge (KIP-932)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.history import Cause
from mesh.pool.common.ids import MemberId
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.fetch.serving import Serving
from mesh.pool.groups.coordinator import GroupCoordinator
from mesh.pool.groups.members import Members
from mesh.pool.intake.intake import Intake
from mesh.pool.offsets.commits import Commits
from mesh.pool.share.acknowledging import Acknowledging
from mesh.pool.share.answers import AcknowledgementOutcome, Errors, NeededAcknowledgements, ShareAnswers
from mesh.pool.share.requests import (
    ENDING,
    OPENING,
    NamedPartition,
    ShareAcknowledgeResult,
    SharedFetch,
    SharedRequest,
    ShareFetchedPartition,
    ShareFetchResult,
)
from mesh.pool.share.sessions import ShareSession, ShareSessions
from mesh.pool.state.fetch import AcquireTerms, FetchParameters, SharedPartition, SharedRecords
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Ownership
from mesh.records.spans import TopicName, UpstreamPartition
from mesh.wire.errors import ErrorCode

MOST_PARTITIONS = 20_000
"""The most partitions of one session."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request that waits for its answer.

    * result: the kind of its result.
    * session: None if it ends with this request, or is not needed.
    * sources: the partitions that are fetched. errors: the errors of those that cannot be fetched.
    """

    connection: ConnectionId
    result: type[ShareFetchResult] | type[ShareAcknowledgeResult]
    outcome: AcknowledgementOutcome
    session: ShareSession | None = None
    is_opening: bool = False
    sources: dict[NamedPartition, UpstreamPartition] = field(default_factory=dict)
    errors: dict[NamedPartition, ErrorCode] = field(default_factory=dict)


class ShareService:
    """Serves the share members of one pool."""

    def __init__(
        self,
        parts: PoolParts,
        topics: VirtualTopics,
        serving: Serving,
        commits: Commits,
        members: Members,
        coordinator: GroupCoordinator,
        intake: Intake,
    ) -> None:
        self._current = parts.share
        self._outbox = parts.outbox
        self._timers = parts.timers
        self._topics = topics
        self._serving = serving
        self._members = members
        self._coordinator = coordinator
        self._intake = intake
        self._acknowledging = Acknowledging(serving, parts.share)
        self._answers = ShareAnswers(parts, commits)
        self._requests: dict[Ticket, _Request] = {}
        self.sessions = ShareSessions()

    @property
    def waiting(self) -> int:
        """The number of requests that wait until their acknowledgements are stored."""
        return len(self._answers)

    # Requests

    def open(
        self, member_id: MemberId, client: ClientIdentity, node: int, connection: ConnectionId, now: float
    ) -> Member:
        """Opens a session of this member with a node. The member need not have joined the group. Records that it
        acquired there over another connection are released."""
        member = self._members.by_id.get(member_id) or self._members.add_share(member_id, client, now)
        assert member.share is not None
        before = self.sessions.of(member_id, node)
        if before is not None and before.connection != connection:
            self._forget_requests(before.connection)
            self._serving.share_releases.release_all(member, Cause.SESSION_ENDED, now, node)
        self.sessions.open(member_id, node, connection)
        member.share.has_session = True
        return member

    def fetch(
        self,
        member: Member,
        node: int,
        connection: ConnectionId,
        ticket: Ticket,
        request: SharedFetch,
        now: float,
    ) -> None:
        """Carries out a ShareFetch of a member at this node."""
        session, error = self._session(member, node, connection, request)
        if error is ErrorCode.NONE and session is not None:
            error = _change(session, request)
        if session is None or error is not ErrorCode.NONE:
            self._outbox.answer(ticket, ShareFetchResult(error))
            return
        pending = self._take(member, connection, ticket, ShareFetchResult, request, now)
        if request.epoch == ENDING:
            self.end(member, session, now)
            self._complete(ticket, SharedRecords())
            return
        pending.session, pending.is_opening = session, request.epoch == OPENING
        self._resolve(pending, member, session, request)
        if not request.acquires:
            self._complete(ticket, SharedRecords())
            return
        is_news = any(session.last_errors[name] != error for name, error in pending.errors.items())
        wait = 0.0 if is_news else request.wait
        terms = AcquireTerms(
            request.most_records, request.is_exact, request.longest_range, self._current.value.most_locks
        )
        parameters = FetchParameters((), request.minimum, request.maximum, wait)
        sources = _from_another_on(list(pending.sources.values()), session.epoch)
        self._serving.share_fetch(member, connection, ticket, parameters, sources, terms, now)

    def acknowledge(
        self, member: Member, node: int, connection: ConnectionId, ticket: Ticket, request: SharedRequest, now: float
    ) -> None:
        session, error = self._session(member, node, connection, request)
        if session is None:
            self._outbox.answer(ticket, ShareAcknowledgeResult(error))
            return
        pending = self._take(member, connection, ticket, ShareAcknowledgeResult, request, now)
        if request.epoch == ENDING:
            self.end(member, session, now)
        self._answers.answer(pending.outcome, partial(self._acknowledged, ticket, pending))

    def refuse_session(self, connection: ConnectionId, ticket: Ticket, wait: float, now: float) -> None:
        """Refuses a ShareFetch that would open one session too many, after `wait` seconds. Otherwise its client would
        ask again at once, all the time."""
        self._requests[ticket] = _Request(connection, ShareFetchResult, AcknowledgementOutcome())
        self._timers.at(now + wait, lambda _: self._refuse(ticket, ErrorCode.SHARE_SESSION_LIMIT_REACHED))

    # The end of a session or of the pool

    def disconnected(self, member: Member, connection: ConnectionId, now: float) -> None:
        """Handles the end of a member's connection. The sessions on that connection end."""
        self._forget_requests(connection)
        for session in self.sessions.all_of(member.id):
            if session.connection == connection:
                self.end(member, session, now)

    def end(self, member: Member, session: ShareSession, now: float) -> None:
        """Ends a session. Other members get the records that its member has acquired by it and not acknowledged."""
        assert member.share is not None
        self.sessions.end(member.id, session)
        member.share.has_session = bool(self.sessions.all_of(member.id))
        self._serving.share_releases.release_all(member, Cause.SESSION_ENDED, now, session.node)
        if not member.share.has_session and member.id not in self._coordinator.members:
            self._members.forget(member, Cause.SESSION_ENDED, now)

    def close(self) -> None:
        """Closes the sessions. Clients open new ones, in a new pool."""
        for ticket in list(self._requests):
            self._refuse(ticket, ErrorCode.SHARE_SESSION_NOT_FOUND)

    # The end of a step

    def answer(self) -> None:
        """Answers requests that have their records, and whose acknowledgements are stored."""
        if self._serving.complete_share_fetches:
            complete, self._serving.complete_share_fetches = self._serving.complete_share_fetches, []
            for ticket, records in complete:
                self._complete(ticket, records)
        if self._answers:
            self._answers.stored(self._serving.voided)

    # Internals

    def _session(
        self, member: Member, node: int, connection: ConnectionId, request: SharedRequest
    ) -> tuple[ShareSession | None, ErrorCode]:
        if isinstance(request, SharedFetch) and request.epoch == OPENING:
            return self.sessions.of(member.id, node), ErrorCode.NONE
        return self.sessions.continued(member.id, node, connection, request)

    def _refuse(self, ticket: Ticket, error: ErrorCode) -> None:
        """Answers a waiting request with an error. Does nothing if it does not wait any more."""
        pending = self._requests.pop(ticket, None)
        if pending is not None:
            self._answers.forget([pending.outcome])
            self._outbox.answer(ticket, pending.result(error))

    def _take(
        self,
        member: Member,
        connection: ConnectionId,
        ticket: Ticket,
        result: type[ShareFetchResult] | type[ShareAcknowledgeResult],
        request: SharedRequest,
        now: float,
    ) -> _Request:
        """Begins a request: carries out its acknowledgements before its other parts. result: the kind of its result."""
        member.heard_at = now
        outcome = AcknowledgementOutcome()
        assert member.share is not None
        for name, batches in request.acknowledgements.items():
            source, error = self._source(name, request)
            partition = self._serving.partitions.get(source) if source is not None else None
            if source is None or partition is None or partition.ownership is Ownership.UNASSIGNED:
                outcome.errors[name] = ErrorCode.NOT_LEADER_OR_FOLLOWER if source is not None else error
                continue
            done = self._acknowledging.acknowledge(member, partition, batches, request.may_renew, now)
            outcome.errors[name] = done.error
            if done.settling:
                holding = member.share.of(source)
                outcome.needed[name] = NeededAcknowledgements(partition, partition.ledger, holding, done.settling)
        self._answers.watch(outcome, now)
        pending = self._requests[ticket] = _Request(connection, result, outcome)
        return pending

    def _resolve(self, pending: _Request, member: Member, session: ShareSession, request: SharedRequest) -> None:
        """Looks up the partitions of a session. From now on the member acquires their records by this session."""
        assert member.share is not None
        topics: dict[UUID | None, tuple[TopicName | None, ErrorCode]] = {}
        for name in session.last_errors:
            known = topics.get(name.topic_id)
            if known is None:
                known = topics[name.topic_id] = self._topic(name.topic_id, request)
                if known[0] is not None:
                    self._intake.consume(known[0])
            source, error = self._partition(*known, name.number)
            if source is None:
                pending.errors[name] = error
                continue
            pending.sources[name] = source
            member.share.of(source).node = session.node

    def _source(self, name: NamedPartition, request: SharedRequest) -> tuple[UpstreamPartition | None, ErrorCode]:
        return self._partition(*self._topic(name.topic_id, request), name.number)

    def _topic(self, topic_id: UUID | None, request: SharedRequest) -> tuple[TopicName | None, ErrorCode]:
        topic = self._topics.name_of(topic_id) if topic_id is not None else None
        if topic is None:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
        return (topic, ErrorCode.NONE) if request.may_read(topic) else (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _partition(
        self, topic: TopicName | None, error: ErrorCode, number: int
    ) -> tuple[UpstreamPartition | None, ErrorCode]:
        source = self._topics.partition(topic, number) if topic is not None else None
        return source, error if source is not None else error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _complete(self, ticket: Ticket, records: SharedRecords) -> None:
        """Answers a request with its records, as soon as its acknowledgements are stored."""
        pending = self._requests.get(ticket)
        if pending is not None:
            self._answers.answer(pending.outcome, partial(self._fetched, ticket, pending, records))

    def _fetched(self, ticket: Ticket, pending: _Request, records: SharedRecords, errors: Errors) -> None:
        del self._requests[ticket]
        by_source = {each.source: each for each in records.partitions}
        partitions: list[ShareFetchedPartition] = []
        last_errors = pending.session.last_errors if pending.session is not None else {}
        for name in [*last_errors, *(name for name in errors if name not in last_errors)]:
            error = pending.errors.get(name, ErrorCode.NONE)
            found = by_source.get(pending.sources[name]) if name in pending.sources else None
            before = last_errors.get(name, ErrorCode.NONE)
            if pending.is_opening or found is not None or name in errors or error is not before or error:
                partitions.append(_fetched(name, error, errors.get(name, ErrorCode.NONE), found))
            if name in last_errors:
                last_errors[name] = error
        result = ShareFetchResult(ErrorCode.NONE, self._current.value.lock, tuple(partitions), records.delivered)
        self._outbox.answer(ticket, result)

    def _acknowledged(self, ticket: Ticket, pending: _Request, errors: Errors) -> None:
        del self._requests[ticket]
        lock, settles = self._current.value.lock, pending.outcome.settles
        self._outbox.answer(ticket, ShareAcknowledgeResult(ErrorCode.NONE, lock, dict(errors), settles))

    def _forget_requests(self, connection: ConnectionId) -> None:
        gone = [ticket for ticket, pending in self._requests.items() if pending.connection == connection]
        self._answers.forget(self._requests.pop(ticket).outcome for ticket in gone)


def _from_another_on(sources: list[UpstreamPartition], epoch: int) -> list[UpstreamPartition]:
    """Rotates the partitions, so that each request begins with another one. Otherwise a partition with more records
    than fit into an answer would block the others."""
    first = epoch % len(sources) if sources else 0
    return sources[first:] + sources[:first]


def _change(session: ShareSession, request: SharedFetch) -> ErrorCode:
    """Changes the partitions of a session. A partition that is added and forgotten in the same request is only
    acknowledged, and does not join the session."""
    for name in request.added:
        session.last_errors.setdefault(name, None)
    for name in request.forgotten:
        session.last_errors.pop(name, None)
    return ErrorCode.INVALID_REQUEST if len(session.last_errors) > MOST_PARTITIONS else ErrorCode.NONE


def _fetched(
    name: NamedPartition, error: ErrorCode, acknowledge_error: ErrorCode, found: SharedPartition | None
) -> ShareFetchedPartition:
    if found is None:
        return ShareFetchedPartition(name, error, acknowledge_error)
    return ShareFetchedPartition(name, error, acknowledge_error, found.records, found.acquired)
