"""Whose request is it? A Fetch names no group and no member; a connection may carry either.

Offsets tell (a slot is unique over the virtual cluster); then the connection, by what came on it before. A client that
seeks before the first Fetch of a connection has told nothing yet: it is taken for a member of the same client that
fetches nowhere. That is a guess, and it is taken back as soon as the member itself shows up, or commits what another
one was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mesh.pool.effects import ConnectionId, GroupId
from mesh.pool.fetching import Fetch, FetchRequest
from mesh.pool.member import Member
from mesh.pool.pool import Pool
from mesh.pool.slots import SEQUENCE_BITS, Slots, is_end, slot_of
from mesh.pool.topics import VirtualTopics


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
    def __init__(self, topics: VirtualTopics, slots: Slots[Member]) -> None:
        self._topics = topics
        self._slots = slots
        self._connections: dict[ConnectionId, Connection] = {}

    def __getitem__(self, connection: ConnectionId) -> Connection:
        return self._connections[connection]

    def __len__(self) -> int:
        return len(self._connections)

    def open(self, connection: ConnectionId, client_host: str) -> None:
        self._connections[connection] = Connection(connection, client_host)

    def close(self, connection: ConnectionId) -> Connection | None:
        return self._connections.pop(connection, None)

    def owner_of_offsets(self, state: Connection, request: FetchRequest) -> Member | None:
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

    def bind(self, state: Connection, member: Member, guessed: bool) -> None:
        """Fetches of this connection are this member's."""
        if state.fetching is not member:
            state.fetching, state.guessed = member, guessed
        state.stranger_since = None

    def forget_stranger(self, fetch: Fetch) -> None:
        if fetch.connection in self._connections:
            self._connections[fetch.connection].strangers.discard(fetch)

    def about_to_fetch(self, state: Connection, pools: Iterable[Pool], hung_since: float) -> Member | None:
        """A member of the same client that is connected and fetches nowhere; rather one that never has. At last one
        that has not fetched since `hung_since`, and so may have lost its connection without our having noticed."""
        idle = [
            member
            for pool in pools
            for member in pool.all_members
            if _is_same_client(state, member)
            and member.connections
            and (not self._is_fetching(member) or (not member.fetches and member.fetched <= hung_since))
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
