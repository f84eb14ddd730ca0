"""What share members ask of one pool: ShareFetch and ShareAcknowledge (KIP-932)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

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
from mesh.pool.share.answers import Errors, Needed, Outcome, ShareAnswers
from mesh.pool.share.requests import (
    ENDING,
    OPENING,
    NamedPartition,
    ShareAcknowledgeResult,
    SharedRequest,
    ShareFetchedPartition,
    ShareFetchRequest,
    ShareFetchResult,
)
from mesh.pool.share.sessions import ShareSession, ShareSessions
from mesh.pool.state.fetch import AcquireTerms, FetchParameters, SharedPartition, SharedRecords
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Ownership
from mesh.records.spans import UpstreamPartition
from mesh.wire.errors import ErrorCode

MOST_PARTITIONS = 20_000
"""Of one session: as many as one request may name."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A request that waits for its answer. session: None if it is over by then. sources: of the partitions that are
    fetched, and errors of those that cannot be."""

    connection: ConnectionId
    outcome: Outcome
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
        self._topics = topics
        self._serving = serving
        self._members = members
        self._coordinator = coordinator
        self._intake = intake
        self._acknowledging = Acknowledging(serving, parts.share)
        self._answers = ShareAnswers(parts, commits)
        self._asked: dict[Ticket, _Asked] = {}
        self.sessions = ShareSessions()

    @property
    def waiting(self) -> int:
        """How many requests wait until what they acknowledged is stored."""
        return len(self._answers)

    # Requests

    def open(self, member_id: MemberId, client: ClientIdentity, connection: ConnectionId, now: float) -> Member:
        """A session of this member begins, whether it has joined the group or not. What it had acquired by another
        connection is released."""
        member = self._members.by_id.get(member_id) or self._members.add_share(member_id, client, now)
        assert member.share is not None
        before = self.sessions.of(member_id)
        if before is not None and before.connection != connection:
            self._forget_requests(before.connection)
            self._serving.share_releases.release_all(member, Cause.SESSION_ENDED, now)
        self.sessions.open(member_id, connection)
        member.share.has_session = True
        return member

    def fetch(
        self, member: Member, connection: ConnectionId, ticket: Ticket, request: ShareFetchRequest, now: float
    ) -> None:
        """Its session was opened, if that is what it asks for."""
        session, error = self._session(member, connection, request)
        if error is ErrorCode.NONE and session is not None:
            error = _change(session, request)
        if session is None or error is not ErrorCode.NONE:
            self._outbox.answer(ticket, ShareFetchResult(error))
            return
        asked = self._take(member, connection, ticket, request, now)
        if request.epoch == ENDING:
            self.end(member, now)
            self._complete(ticket, SharedRecords())
            return
        asked.session, asked.is_opening = session, request.epoch == OPENING
        self._resolve(asked, session, request)
        if not request.acquires:
            self._complete(ticket, SharedRecords())
            return
        is_news = any(session.told[name] != error for name, error in asked.errors.items())
        wait = 0.0 if is_news else request.wait
        terms = AcquireTerms(
            request.most_records, request.is_exact, request.longest_range, self._current.value.most_locks
        )
        parameters = FetchParameters((), request.minimum, request.maximum, wait)
        self._serving.share_fetch(member, connection, ticket, parameters, asked.sources.values(), terms, now)

    def acknowledge(
        self, member: Member, connection: ConnectionId, ticket: Ticket, request: SharedRequest, now: float
    ) -> None:
        session, error = self._session(member, connection, request)
        if session is None:
            self._outbox.answer(ticket, ShareAcknowledgeResult(error))
            return
        asked = self._take(member, connection, ticket, request, now)
        if request.epoch == ENDING:
            self.end(member, now)
        self._answers.answer(asked.outcome, partial(self._acknowledged, ticket))

    # A session ends, or the pool

    def disconnected(self, member: Member, connection: ConnectionId, now: float) -> None:
        """A connection of a member is gone; its session ends if that was its own."""
        self._forget_requests(connection)
        session = self.sessions.of(member.id)
        if session is not None and session.connection == connection:
            self.end(member, now)

    def end(self, member: Member, now: float) -> None:
        """Others get at once what it has not acknowledged."""
        assert member.share is not None
        self.sessions.end(member.id)
        member.share.has_session = False
        self._serving.share_releases.release_all(member, Cause.SESSION_ENDED, now)
        if member.id not in self._coordinator.members:
            self._members.forget(member, Cause.SESSION_ENDED, now)

    def close(self) -> None:
        """Its clients open another session, and get another pool."""
        for ticket, asked in list(self._asked.items()):
            self._answers.forget([asked.outcome])
            self._outbox.answer(ticket, ShareFetchResult(ErrorCode.SHARE_SESSION_NOT_FOUND))
        self._asked.clear()

    # The end of a step

    def answer(self) -> None:
        """What is complete, and stored."""
        if self._serving.shared:
            shared, self._serving.shared = self._serving.shared, []
            for ticket, records in shared:
                self._complete(ticket, records)
        if self._answers:
            self._answers.stored()

    # How

    def _session(
        self, member: Member, connection: ConnectionId, request: SharedRequest
    ) -> tuple[ShareSession | None, ErrorCode]:
        if isinstance(request, ShareFetchRequest) and request.epoch == OPENING:
            return self.sessions.of(member.id), ErrorCode.NONE
        return self.sessions.continued(member.id, connection, request)

    def _take(
        self, member: Member, connection: ConnectionId, ticket: Ticket, request: SharedRequest, now: float
    ) -> _Asked:
        """Do what it acknowledges, before anything else it asks for."""
        member.heard = now
        outcome = Outcome()
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
                outcome.needed[name] = Needed(partition, partition.ledger, holding, done.settling)
        self._answers.watch(outcome, now)
        asked = self._asked[ticket] = _Asked(connection, outcome)
        return asked

    def _resolve(self, asked: _Asked, session: ShareSession, request: SharedRequest) -> None:
        """What stands behind the partitions of a session now."""
        for name in session.told:
            source, error = self._source(name, request)
            if source is None:
                asked.errors[name] = error
                continue
            asked.sources[name] = source
            number = self._topics.number(source)
            if number is not None:
                self._intake.want(number[0])

    def _source(self, name: NamedPartition, request: SharedRequest) -> tuple[UpstreamPartition | None, ErrorCode]:
        topic = self._topics.name_of(name.topic_id) if name.topic_id is not None else None
        if topic is None:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
        if not request.may_read(topic):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        source = self._topics.partition(topic, name.number)
        return source, ErrorCode.NONE if source is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _complete(self, ticket: Ticket, records: SharedRecords) -> None:
        """It has what it was to be given."""
        asked = self._asked.get(ticket)
        if asked is not None:
            self._answers.answer(asked.outcome, partial(self._fetched, ticket, asked, records))

    def _fetched(self, ticket: Ticket, asked: _Asked, records: SharedRecords, errors: Errors) -> None:
        del self._asked[ticket]
        by_source = {each.source: each for each in records.partitions}
        partitions: list[ShareFetchedPartition] = []
        told = asked.session.told if asked.session is not None else {}
        for name in [*told, *(name for name in errors if name not in told)]:
            error = asked.errors.get(name, ErrorCode.NONE)
            found = by_source.get(asked.sources[name]) if name in asked.sources else None
            before = told.get(name, ErrorCode.NONE)
            if asked.is_opening or found is not None or name in errors or error is not before or error:
                partitions.append(_fetched(name, error, errors.get(name, ErrorCode.NONE), found))
            if name in told:
                told[name] = error
        result = ShareFetchResult(ErrorCode.NONE, self._current.value.lock, tuple(partitions), records.delivered)
        self._outbox.answer(ticket, result)

    def _acknowledged(self, ticket: Ticket, errors: Errors) -> None:
        del self._asked[ticket]
        self._outbox.answer(ticket, ShareAcknowledgeResult(ErrorCode.NONE, self._current.value.lock, dict(errors)))

    def _forget_requests(self, connection: ConnectionId) -> None:
        gone = [ticket for ticket, asked in self._asked.items() if asked.connection == connection]
        self._answers.forget(self._asked.pop(ticket).outcome for ticket in gone)


def _change(session: ShareSession, request: ShareFetchRequest) -> ErrorCode:
    """Partitions that are added and forgotten at once are only acknowledged: they are none of the session's."""
    for name in request.added:
        session.told.setdefault(name, None)
    for name in request.forgotten:
        session.told.pop(name, None)
    return ErrorCode.INVALID_REQUEST if len(session.told) > MOST_PARTITIONS else ErrorCode.NONE


def _fetched(
    name: NamedPartition, error: ErrorCode, acknowledge_error: ErrorCode, found: SharedPartition | None
) -> ShareFetchedPartition:
    if found is None:
        return ShareFetchedPartition(name, error, acknowledge_error)
    return ShareFetchedPartition(name, error, acknowledge_error, found.records, found.acquired)
