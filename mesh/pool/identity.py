"""Whose request is it? A Fetch names no group and no member; a connection may carry either.

Offsets tell (a slot is unique over the virtual cluster); then the connection, by what came on it before. A client that
seeks before the first Fetch of a connection has told nothing yet: it is taken for a member of the same client that
fetches nowhere. That is a guess, and it is taken back as soon as the member itself shows up, or commits what another
one was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mesh.pool.effects import ConnectionId, GroupId, MemberId
from mesh.pool.fetching import FetchRequest
from mesh.pool.member import Member
from mesh.pool.partition import Fetch
from mesh.pool.pool import Pool
from mesh.pool.pools import Pools
from mesh.pool.settings import PoolSettings
from mesh.pool.slots import SEQUENCE_BITS, Slots, is_end, slot_of
from mesh.pool.topics import VirtualTopics
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode


@dataclass(slots=True, eq=False)
class Connection:
    """What is known of a downstream connection.

    fetching: the member whose Fetches come here; guessed: by no better reason than that it was about to.
    barred: a member it was taken for by mistake. joined: the members that joined here, by group.
    heard: members that sent heartbeats or commits here. stranger_since: since when it has been asking with offsets of
    an earlier run. strangers: such Fetches that wait.
    """

    id: ConnectionId
    client_host: str
    client_id: str = ""
    fetching: Member | None = None
    guessed: bool = False
    barred: Member | None = None
    joined: dict[GroupId, Member] = field(default_factory=dict)
    stranger_since: float | None = None
    strangers: set[Fetch] = field(default_factory=set)
    heard: set[Member] = field(default_factory=set)

    @property
    def members(self) -> set[Member]:
        return self.heard | {*self.joined.values()} | ({self.fetching} if self.fetching is not None else set())


class Connections:
    def __init__(self, topics: VirtualTopics, slots: Slots[Member], pools: Pools, settings: PoolSettings) -> None:
        self._topics = topics
        self._slots = slots
        self._pools = pools
        self._settings = settings
        self._connections: dict[ConnectionId, Connection] = {}

    def __getitem__(self, connection: ConnectionId) -> Connection:
        return self._connections[connection]

    def __len__(self) -> int:
        return len(self._connections)

    def open(self, connection: ConnectionId, client_host: str) -> None:
        self._connections[connection] = Connection(connection, client_host)

    def close(self, connection: ConnectionId) -> Connection | None:
        return self._connections.pop(connection, None)

    def fetching_member(self, state: Connection, request: FetchRequest, now: float) -> tuple[Member | None, bool]:
        """Whose Fetch this is, and whether that is a guess: its offsets tell; then its connection; then who is known to
        be about to fetch. None while that has to be waited for, or nobody is let in. Raises SlotsExhausted."""
        guessed = False
        owner = self._owner_of_offsets(state, request)
        if owner is None and state.fetching is not None and self._pools.of_member(state.fetching) is not None:
            owner = state.fetching
        if owner is None and state.barred is None and is_of_an_earlier_run(request):
            # A member of a group finds out by its next heartbeat, and comes back with offsets of ours. To give it
            # records before that could only mean records of another group.
            if state.stranger_since is None:
                state.stranger_since = now
            if now - state.stranger_since < self._settings.stranger_grace:
                return None, False
        if owner is None and request.partitions:
            if state.barred is None:
                hung_since = now - self._settings.hung_after
                owner = self._about_to_fetch(state, self._pools.by_group.values(), hung_since)
            guessed = owner is not None
            owner = owner or self._pools.new_groupless(state.client_id, state.client_host, now)
        return owner, guessed

    def committer(
        self,
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
            if pool is None:
                return None, None, ErrorCode.UNKNOWN_MEMBER_ID
            error = pool.coordinator.validate(member_id, instance_id, generation)
            return (pool, pool.members[member_id], error) if error is ErrorCode.NONE else (None, None, error)
        for _, _, offset in positions:
            owner = self._slots.owner(slot_of(offset)) if offset >= 0 else None
            if owner is not None and not owner.id and owner.group == group and group in self._pools.by_group:
                return self._pools.by_group[group], owner, ErrorCode.NONE
        return None, None, ErrorCode.UNKNOWN_MEMBER_ID

    def bind(self, state: Connection, member: Member, guessed: bool) -> None:
        """Fetches of this connection are this member's."""
        if state.fetching is not member:
            state.fetching, state.guessed = member, guessed
        state.stranger_since = None

    def forget_stranger(self, fetch: Fetch) -> None:
        if fetch.connection in self._connections:
            self._connections[fetch.connection].strangers.discard(fetch)

    def _owner_of_offsets(self, state: Connection, request: FetchRequest) -> Member | None:
        """The member to whom an offset of the request belongs: one in its window, or where a new window begins."""
        for asked in request.partitions:
            owner = self._slots.owner(slot_of(asked.offset)) if asked.offset >= 0 else None
            if owner is None or owner is state.barred or asked.topic is None:
                continue
            source = self._topics.partition(asked.topic, asked.partition)
            window = owner.windows.get(source) if source is not None else None
            if window is None:
                is_its_own = asked.offset == self._slots.start(owner.slot)
            else:
                # Below its window stands a client whose answers were lost; but also one of an earlier run, perhaps.
                start = self._slots.start(slot_of(asked.offset))
                is_its_own = asked.offset in window or (
                    start <= asked.offset < window.committed and _is_same_client(state, owner)
                )
            if is_its_own:
                self._take_back_guesses(owner, state)
                return owner
        return None

    def _about_to_fetch(self, state: Connection, pools: Iterable[Pool], hung_since: float) -> Member | None:
        """A member of the same client that is connected and fetches nowhere; rather one that never has. At last one
        that has not fetched since `hung_since`, and so may have lost its connection without our having noticed."""
        idle = [
            member
            for pool in pools
            for member in pool.all_members
            if _is_same_client(state, member)
            and member.connections
            and (not self._is_fetching(member) or (not member.parked and member.fetched <= hung_since))
        ]
        return min(idle, key=lambda member: (self._is_fetching(member), member.has_fetched), default=None)

    def correct(self, pool: Pool, committer: Member, offsets: Iterable[int]) -> Member:
        """A member commits: if these are offsets that another member of its pool was sent on a guess, the two were
        taken for each other. Returns the member that is really meant."""
        for offset in offsets:
            owner = self._slots.owner(slot_of(offset)) if offset >= 0 else None
            if owner is not None and owner is not committer and pool.members.get(owner.id) is owner:
                if any(state.fetching is owner and state.guessed for state in self._of(owner)):
                    self._exchange(pool, committer, owner)
                    return owner
                return committer
        return committer

    def _is_fetching(self, member: Member) -> bool:
        return any(state.fetching is member for state in self._of(member))

    def _of(self, member: Member) -> Iterator[Connection]:
        for connection in member.connections:
            if connection in self._connections:
                yield self._connections[connection]

    def _take_back_guesses(self, owner: Member, true: Connection) -> None:
        for state in list(self._of(owner)):
            if state is not true and state.fetching is owner and state.guessed:
                state.fetching, state.guessed, state.barred = None, False, owner
                if owner not in state.joined.values():
                    owner.connections.discard(state.id)

    def _exchange(self, pool: Pool, one: Member, other: Member) -> None:
        """Two members exchange who they are; what each holds, and the connection it fetches on, stays."""
        for member in (one, other):
            for state in self._of(member):
                if state.fetching is member:
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
        pool.members[one.id], pool.members[other.id] = one, other


def _is_same_client(state: Connection, member: Member) -> bool:
    return member.client_id == state.client_id and member.client_host == state.client_host


def is_of_an_earlier_run(request: FetchRequest) -> bool:
    """Whether all offsets look like virtual ones, given that none of them belongs to anybody."""
    return bool(request.partitions) and all(
        asked.offset >> SEQUENCE_BITS > 0 and not is_end(asked.offset) for asked in request.partitions
    )
