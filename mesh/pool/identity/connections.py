"""Whose request is it? A Fetch names no group and no member; a connection may carry either.

Offsets tell (a slot is unique over the virtual cluster); then the connection, by what came on it before. A client that
seeks before the first Fetch of a connection has told nothing yet: it is taken for a member of the same client that
fetches nowhere. That is a guess, and it is taken back as soon as the member itself shows up, or commits what another
one was sent.

Whatever tells, a request is a member's only if the same principal authenticated for both: who names the offsets or the
member id of another principal belongs to no member (docs/decisions/0019-members-belong-to-their-principals.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.timers import Timer
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.groups.member_index import MemberIndex
from mesh.pool.pool import Pool
from mesh.pool.pools import Pools
from mesh.pool.state.fetch import FetchParameters
from mesh.pool.state.member import Member
from mesh.pool.state.slots import SEQUENCE_BITS, Slots, is_end, slot_of
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode


@dataclass(slots=True, eq=False)
class UnidentifiedFetch:
    """A Fetch that waits and belongs to no pool: with offsets of an earlier run it does not say whose it is.

    offsets: of its partitions, in the order of the request.
    """

    ticket: Ticket
    connection: ConnectionId
    offsets: tuple[int, ...]
    timer: Timer


@dataclass(slots=True, eq=False)
class Connection:
    """What is known of a downstream connection.

    fetching: the member whose Fetches come here; guessed: by no better reason than that it was about to.
    barred: a member it was taken for by mistake. joined: the members that joined here, by group.
    heard: members that sent heartbeats or commits here. unidentified_since: since when it has been asking with offsets
    of an earlier run. unidentified: such Fetches that wait.
    """

    id: ConnectionId
    client: ClientIdentity
    fetching: Member | None = None
    guessed: bool = False
    barred: Member | None = None
    joined: dict[GroupId, Member] = field(default_factory=dict)
    unidentified_since: float | None = None
    unidentified: set[UnidentifiedFetch] = field(default_factory=set)
    heard: set[Member] = field(default_factory=set)

    def set_client_id(self, client_id: str) -> None:
        if client_id != self.client.id:
            self.client = replace(self.client, id=client_id)

    def may_be(self, member: Member) -> bool:
        """Whether requests of this connection can be this member's at all."""
        return member.client.principal == self.client.principal

    @property
    def members(self) -> set[Member]:
        return self.heard | {*self.joined.values()} | ({self.fetching} if self.fetching is not None else set())


class Connections:
    """Connections of clients, and the member that each of them speaks for."""

    def __init__(
        self, topics: VirtualTopics, slots: Slots[Member], clients: MemberIndex, pools: Pools, settings: PoolSettings
    ) -> None:
        self._topics = topics
        self._slots = slots
        self._pools = pools
        self._settings = settings
        self._connections: dict[ConnectionId, Connection] = {}
        self._clients = clients
        self._fetching: dict[Member, set[Connection]] = {}
        """The connections whose Fetches are a member's."""
        self._guesses: dict[Member, set[Connection]] = {}
        """Those of them that were taken for its own by a guess."""

    def __getitem__(self, connection: ConnectionId) -> Connection:
        return self._connections[connection]

    def __len__(self) -> int:
        return len(self._connections)

    def open(self, connection: ConnectionId, client: ClientIdentity) -> None:
        self._connections[connection] = Connection(connection, client)

    def close(self, connection: ConnectionId) -> Connection | None:
        state = self._connections.pop(connection, None)
        if state is not None and state.fetching is not None:
            self._unbind(state, state.fetching)  # what it was is still told by the state
        return state

    def is_anothers(self, connection: ConnectionId, group: GroupId, member_id: str) -> bool:
        """Whether the member of that id, if there is one, is another principal's. Then there is none for who asks: but
        for LeaveGroup, by which tools remove the members of others, and for static members, who are replaced by who
        names their instance id; both as in Kafka."""
        pool = self._pools.by_group.get(group)
        member = pool.members.by_id.get(MemberId(member_id)) if pool is not None else None
        return member is not None and not self._connections[connection].may_be(member)

    def fetching_member(self, state: Connection, request: FetchParameters, now: float) -> tuple[Member | None, bool]:
        """Whose Fetch this is, and whether that is a guess: its offsets tell; then its connection; then who is known to
        be about to fetch. None while that has to be waited for, or nobody is let in. Raises SlotsExhausted."""
        guessed = False
        owner = self._owner_of_offsets(state, request)
        if owner is None and state.fetching is not None and self._pools.of_member(state.fetching) is not None:
            owner = state.fetching
        if owner is None and state.barred is None and is_of_an_earlier_run(request):
            # A member of a group finds out by its next heartbeat, and comes back with offsets of ours. To give it
            # records before that could only mean records of another group.
            if state.unidentified_since is None:
                state.unidentified_since = now
            if now - state.unidentified_since < self._settings.unidentified_grace:
                return None, False
        if owner is None and request.partitions:
            if state.barred is None:
                hung_since = now - self._settings.hung_after
                owner = self._clients.about_to_fetch(state.client, hung_since)
            guessed = owner is not None
            owner = owner or self._pools.new_groupless(state.client, now)
        return owner, guessed

    def committer(
        self,
        connection: ConnectionId,
        group: GroupId,
        member_id: MemberId,
        instance_id: str | None,
        generation: int,
        positions: Sequence[tuple[TopicName, int, int]],
    ) -> tuple[Pool | None, Member | None, ErrorCode]:
        """Whose commit this is, of (topic, partition, offset) each, and why it is refused if it is nobody's."""
        if not group:
            return None, None, ErrorCode.INVALID_GROUP_ID
        if member_id or generation >= 0:
            pool = self._pools.by_group.get(group)
            if pool is None or self.is_anothers(connection, group, member_id):
                return None, None, ErrorCode.UNKNOWN_MEMBER_ID
            error = pool.coordinator.validate(member_id, instance_id, generation)
            return (pool, pool.members.by_id[member_id], error) if error is ErrorCode.NONE else (None, None, error)
        for _, _, offset in positions:
            owner = self._slots.owner(slot_of(offset)) if offset >= 0 else None
            if owner is None or owner.id or not self._connections[connection].may_be(owner):
                continue
            if owner.group == group and group in self._pools.by_group:
                return self._pools.by_group[group], owner, ErrorCode.NONE
        return None, None, ErrorCode.UNKNOWN_MEMBER_ID

    def bind(self, state: Connection, member: Member, guessed: bool) -> None:
        """Fetches of this connection are this member's."""
        if state.fetching is not member:
            if state.fetching is not None:
                self._unbind(state, state.fetching)
            state.fetching, state.guessed = member, guessed
            self._fetching.setdefault(member, set()).add(state)
            if guessed:
                self._guesses.setdefault(member, set()).add(state)
        self._clients.fetches(member)
        state.unidentified_since = None

    def joined(self, connection: ConnectionId, member: Member, client_id: str, now: float) -> None:
        """A member has joined its group here."""
        state = self._connections[connection]
        state.set_client_id(client_id)
        before, state.joined[member.group] = state.joined.get(member.group), member
        self.rebind(before, state, now)

    def heard(self, connection: ConnectionId, member: Member) -> None:
        """A member is connected where it says that it lives, until that connection closes."""
        self._connections[connection].heard.add(member)
        member.connections.add(connection)

    def rebind(self, before: Member | None, state: Connection, now: float) -> None:
        """A connection is another member's from now on: for the one it was before, it has closed."""
        if before is not None:
            state.heard.discard(before)
        pool = self._pools.of_member(before) if before is not None else None
        if before is not None and pool is not None and before not in state.members:
            pool.disconnected(before, state.id, now)

    def forget_unidentified(self, fetch: UnidentifiedFetch) -> None:
        if fetch.connection in self._connections:
            self._connections[fetch.connection].unidentified.discard(fetch)

    def _owner_of_offsets(self, state: Connection, request: FetchParameters) -> Member | None:
        """The member to whom an offset of the request belongs: one in its window, or where a new window begins."""
        for asked in request.partitions:
            owner = self._slots.owner(slot_of(asked.offset)) if asked.offset >= 0 else None
            if owner is None or owner is state.barred or asked.topic is None or not state.may_be(owner):
                continue
            if owner.share is not None:  # it has no offsets of ours, and says in each request who it is
                continue
            source = self._topics.partition(asked.topic, asked.partition)
            window = owner.windows.get(source) if source is not None else None
            if window is None:
                is_its_own = asked.offset == self._slots.start(owner.slot)
            else:
                # Below its window stands a client whose answers were lost; but also one of an earlier run, perhaps.
                start = self._slots.start(slot_of(asked.offset))
                is_its_own = asked.offset in window or (
                    start <= asked.offset < window.committed and owner.client == state.client
                )
            if is_its_own:
                self._take_back_guesses(owner, state)
                return owner
        return None

    def correct(self, pool: Pool, committer: Member, offsets: Iterable[int]) -> Member:
        """A member commits: if these are offsets that another member of its pool was sent on a guess, the two were
        taken for each other. Returns the member that is really meant."""
        for offset in offsets:
            owner = self._slots.owner(slot_of(offset)) if offset >= 0 else None
            if owner is not None and owner is not committer and pool.members.by_id.get(owner.id) is owner:
                if owner.client == committer.client and self._guesses.get(owner):
                    self._exchange(pool, committer, owner)
                    return owner
                return committer
        return committer

    def _unbind(self, state: Connection, member: Member) -> None:
        _discard(self._guesses, member, state)
        _discard(self._fetching, member, state)
        if member not in self._fetching:
            self._clients.stopped(member)

    def _of(self, member: Member) -> Iterator[Connection]:
        for connection in member.connections:
            if connection in self._connections:
                yield self._connections[connection]

    def _take_back_guesses(self, owner: Member, true: Connection) -> None:
        for state in list(self._guesses.get(owner, ())):
            if state is not true:
                self._unbind(state, owner)
                state.fetching, state.guessed, state.barred = None, False, owner
                if owner not in state.joined.values():
                    owner.connections.discard(state.id)

    def _exchange(self, pool: Pool, one: Member, other: Member) -> None:
        """Two members exchange who they are; what each holds, and the connection it fetches on, stays."""
        for member in (one, other):
            for state in self._guesses.pop(member, ()):
                state.guessed = False
        one_joined = [state for state in self._of(one) if state.joined.get(pool.group) is one]
        other_joined = [state for state in self._of(other) if state.joined.get(pool.group) is other]
        for states, before, after in ((one_joined, one, other), (other_joined, other, one)):
            for state in states:
                state.joined[pool.group] = after
                before.connections.discard(state.id)
                after.connections.add(state.id)
        one.id, other.id = other.id, one.id
        one.instance_id, other.instance_id = other.instance_id, one.instance_id
        one.rebalance_timeout, other.rebalance_timeout = other.rebalance_timeout, one.rebalance_timeout
        for member in (one, other):
            for source, window in member.windows.items():
                held = [delivery.span for delivery in window]
                pool.serving.delivery_events.add(DeliveryEventType.CORRECTED, source, held, member.holder)
        pool.members.by_id[one.id], pool.members.by_id[other.id] = one, other


def _discard(connections: dict[Member, set[Connection]], member: Member, state: Connection) -> None:
    of_member = connections.get(member)
    if of_member is not None:
        of_member.discard(state)
        if not of_member:
            del connections[member]


def is_of_an_earlier_run(request: FetchParameters) -> bool:
    """Whether all offsets look like virtual ones, given that none of them belongs to anybody."""
    return bool(request.partitions) and all(
        asked.offset >> SEQUENCE_BITS > 0 and not is_end(asked.offset) for asked in request.partitions
    )
