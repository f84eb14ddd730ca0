"""Finds the member of a request. A Fetch names no group and no member, and one connection may carry requests of
several.

An offset identifies the member, since each slot is unique in the virtual cluster. Without an offset, earlier requests
on the connection do. If a groupless member is gone, its slot still tells its group (`FormerSlots`). If a client seeks
before the first Fetch of its connection, there is neither. Then the mesh guesses a member of the same client that does
not fetch. It drops the guess as soon as that member appears elsewhere, or commits records that another member received.

A request belongs to a member only if the same principal has authenticated for both. If it names an offset or the member
id of another principal, it belongs to no member (docs/decisions/0019-members-belong-to-their-principals.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.history import Cause
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.timers import Timer
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.groups.former_slots import FormerSlot
from mesh.pool.groups.member_index import MemberIndex
from mesh.pool.pool import Pool
from mesh.pool.pools import Pools
from mesh.pool.state.fetch import FetchParameters
from mesh.pool.state.member import Member
from mesh.pool.state.slots import LOWEST, SLOTS, Slot, Slots, is_end, slot_of
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode


@dataclass(slots=True, eq=False)
class UnidentifiedFetch:
    """A waiting Fetch that belongs to no pool. Its offsets are of an earlier process, so they do not identify the
    member.

    offsets: the offsets of its partitions, in the order of the request.
    """

    ticket: Ticket
    connection: ConnectionId
    offsets: tuple[int, ...]
    timer: Timer


@dataclass(slots=True, eq=False)
class Connection:
    """A downstream connection, and the members that use it.

    * node: the node to which the client connected; 0 for none.
    * fetching: the member whose Fetches come on it. guessed: whether that is only a guess. barred: a member that was
      guessed wrongly.
    * joined: the members that joined on it, by group. senders: members that sent heartbeats or commits on it.
    * unidentified_since: since when it has sent offsets of an earlier process. unidentified: such Fetches that wait.
    """

    id: ConnectionId
    client: ClientIdentity
    node: int = 0
    fetching: Member | None = None
    guessed: bool = False
    barred: Member | None = None
    joined: dict[GroupId, Member] = field(default_factory=dict)
    unidentified_since: float | None = None
    unidentified: set[UnidentifiedFetch] = field(default_factory=set)
    senders: set[Member] = field(default_factory=set)

    def set_client_id(self, client_id: str) -> None:
        if client_id != self.client.id:
            self.client = replace(self.client, id=client_id)

    def may_be(self, member: Member) -> bool:
        """Returns whether requests of this connection can be this member's."""
        return member.client.principal == self.client.principal

    @property
    def members(self) -> set[Member]:
        return self.senders | {*self.joined.values()} | ({self.fetching} if self.fetching is not None else set())


class Connections:
    """The connections of clients, and the members that use each."""

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
        """The connections that fetch for each member."""
        self._guesses: dict[Member, set[Connection]] = {}
        """The connections that are assigned to each member by a guess."""

    def __getitem__(self, connection: ConnectionId) -> Connection:
        return self._connections[connection]

    def __len__(self) -> int:
        return len(self._connections)

    def open(self, connection: ConnectionId, client: ClientIdentity, node: int = 0) -> None:
        """Registers a new connection. node: as in `Connection`."""
        self._connections[connection] = Connection(connection, client, node)

    def close(self, connection: ConnectionId) -> Connection | None:
        state = self._connections.pop(connection, None)
        if state is not None and state.fetching is not None:
            self._unbind(state, state.fetching)  # `state.fetching` stays, since the caller reads it
        return state

    def is_anothers(self, connection: ConnectionId, group: GroupId, member_id: str) -> bool:
        """Returns whether the member with that id belongs to another principal. The request then has no member. As in
        Kafka, two kinds of requests are not checked: LeaveGroup, by which tools remove other members, and requests with
        an instance id, which replace a static member."""
        pool = self._pools.by_group.get(group)
        member = pool.members.by_id.get(MemberId(member_id)) if pool is not None else None
        return member is not None and not self._connections[connection].may_be(member)

    def fetching_member(self, state: Connection, request: FetchParameters, now: float) -> tuple[Member | None, bool]:
        """Returns the member of a Fetch, and whether it is guessed.

        Its offsets decide, then its connection, then the group of its former slot. Otherwise it is a member that is
        about to fetch, or a new groupless one. The member is None while that cannot be decided yet, and if no member is
        admitted. Raises SlotsExhausted.
        """
        guessed = False
        owner = self._owner_of_offsets(state, request)
        if owner is None and state.fetching is not None and self._pools.of_member(state.fetching) is not None:
            owner = state.fetching
        # A connection that was barred from a member may have offsets of that member's slot.
        if owner is None and state.barred is None and (former := self._former_slots(state, request)):
            return self._successor(state, former, now), False
        if owner is None and state.barred is None and is_of_an_earlier_run(request):
            # A member of a group learns from its next heartbeat that it is unknown, and comes back with offsets of this
            # process. If it got records before that, they could only be those of another group.
            if state.unidentified_since is None:
                state.unidentified_since = now
            if now - state.unidentified_since < self._settings.unidentified_grace:
                return None, False
        if owner is None and request.partitions:
            if state.barred is None:
                hung_since = now - self._settings.hung_after
                owner = self._clients.about_to_fetch(state.client, hung_since)
            guessed = owner is not None
            owner = owner or self._new_without_group(state, request, now)
        return owner, guessed

    def committer(
        self,
        connection: ConnectionId,
        group: GroupId,
        member_id: MemberId,
        instance_id: str | None,
        generation: int,
        positions: Sequence[tuple[TopicName, int, int]],
        now: float,
    ) -> tuple[Pool | None, Member | None, ErrorCode]:
        """Returns the member of a commit of (topic, partition, offset), or the answer if it has none."""
        if not group:
            return None, None, ErrorCode.INVALID_GROUP_ID
        if member_id or generation >= 0:
            pool = self._pools.by_group.get(group)
            if pool is None or self.is_anothers(connection, group, member_id):
                return None, None, ErrorCode.UNKNOWN_MEMBER_ID
            error = pool.coordinator.validate(member_id, instance_id, generation)
            return (pool, pool.members.by_id[member_id], error) if error is ErrorCode.NONE else (None, None, error)
        state = self._connections[connection]
        for _, _, offset in positions:
            owner = self._slots.owner(slot_of(offset)) if offset >= 0 else None
            if owner is None or owner.id or not state.may_be(owner):
                continue
            if owner.group == group and group in self._pools.by_group:
                return self._pools.by_group[group], owner, ErrorCode.NONE
        if self._note_group(state, group, positions, now):
            return None, None, ErrorCode.NONE
        return None, None, ErrorCode.UNKNOWN_MEMBER_ID

    def bind(self, state: Connection, member: Member, guessed: bool) -> None:
        """Assigns the Fetches of a connection to a member. guessed: as in `Connection`."""
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
        """Notes that a member has joined its group on this connection."""
        state = self._connections[connection]
        state.set_client_id(client_id)
        before, state.joined[member.group] = state.joined.get(member.group), member
        self.rebind(before, state, now)

    def left(self, connection: ConnectionId, group: GroupId, member_id: str, instance_id: str | None) -> None:
        """Notes that a client has asked to remove this member from its group. If the member had joined on this
        connection and is gone now, its own client has left: later requests on the connection are not from it."""
        member = self._connections[connection].joined.get(group)
        if member is None or self._pools.of_member(member) is not None:
            return
        is_it = member.id == member_id if member_id else instance_id is not None and member.instance_id == instance_id
        member.has_left = member.has_left or is_it

    def note_request(self, connection: ConnectionId, member: Member) -> None:
        """Notes that a member sent a heartbeat or a commit on this connection. The member counts as connected until the
        connection closes."""
        self._connections[connection].senders.add(member)
        member.connections.add(connection)

    def rebind(self, before: Member | None, state: Connection, now: float) -> None:
        """Notes that the member of a connection has changed. For the member before, the connection has closed."""
        if before is not None:
            state.senders.discard(before)
        pool = self._pools.of_member(before) if before is not None else None
        if before is not None and pool is not None and before not in state.members:
            pool.disconnected(before, state.id, now)

    def forget_unidentified(self, fetch: UnidentifiedFetch) -> None:
        if fetch.connection in self._connections:
            self._connections[fetch.connection].unidentified.discard(fetch)

    def _owner_of_offsets(self, state: Connection, request: FetchParameters) -> Member | None:
        """Returns the member to which an offset of the request belongs: an offset in its window, or at the start of a
        new window."""
        for asked in request.partitions:
            owner = self._slots.owner(slot_of(asked.offset)) if asked.offset >= 0 else None
            if owner is None or owner is state.barred or asked.topic is None or not state.may_be(owner):
                continue
            if owner.share is not None:  # a share member has no virtual offsets, and is named in each request
                continue
            source = self._topics.partition(asked.topic, asked.partition)
            window = owner.windows.get(source) if source is not None else None
            if window is None:
                is_its_own = asked.offset == self._slots.start(owner.slot)
            else:
                # An offset below its window is from a client whose answers were lost, or perhaps from an earlier
                # process.
                start = self._slots.start(slot_of(asked.offset))
                is_its_own = asked.offset in window or (
                    start <= asked.offset < window.committed and owner.client == state.client
                )
            if is_its_own:
                self._take_back_guesses(owner, state)
                return owner
        return None

    def _former_slots(self, state: Connection, request: FetchParameters) -> list[FormerSlot]:
        """Returns the slots of the request that a former groupless consumer had and no member has."""
        slots = {slot_of(asked.offset) for asked in request.partitions if asked.offset >= 0}
        return self._clients.former.of(
            (slot for slot in slots if self._slots.owner(slot) is None), state.client.principal
        )

    def _successor(self, state: Connection, former: Sequence[FormerSlot], now: float) -> Member | None:
        """Returns the member that continues for a former groupless consumer. Returns None if its group is not admitted
        any more, or has no room: it must not get the records of another group. Raises SlotsExhausted."""
        member = next((owner for each in former if (owner := self._living_successor(each)) is not None), None)
        member = member or self._pools.new_groupless(state.client, former[0].group, now)
        if member is None:
            state.unidentified_since = now if state.unidentified_since is None else state.unidentified_since
            return None
        for each in former:
            if each.group == member.group:
                each.successor = member.slot
        return member

    def _new_without_group(self, state: Connection, request: FetchParameters, now: float) -> Member | None:
        """Returns a new member for a consumer that names no group, as far as the mesh knows. A later commit at the
        offsets of an earlier run may name one. Raises SlotsExhausted."""
        member = self._pools.new_groupless(state.client, self._pools.rules.group_less, now)
        if member is not None and is_of_an_earlier_run(request):
            for slot in {slot_of(asked.offset) for asked in request.partitions}:
                self._clients.former.note(slot, state.client.principal, member.group, member.slot)
        return member

    def _living_successor(self, former: FormerSlot) -> Member | None:
        owner = self._slots.owner(former.successor) if former.successor is not None else None
        return owner if owner is not None and not owner.id and owner.group == former.group else None

    def _note_group(
        self, state: Connection, group: GroupId, positions: Sequence[tuple[TopicName, int, int]], now: float
    ) -> bool:
        """Notes the group of a commit without a member id, if its slots are of nobody, or of a consumer without a
        group. Such a consumer does not commit, so it was taken for one wrongly. Returns whether that is so."""
        if self._pools.rules.refusal(group) is not ErrorCode.NONE:
            return False
        slots: set[Slot] = set()
        misplaced: set[Member] = set()
        for topic, index, offset in positions:
            if not looks_virtual(offset):
                continue  # a position that it sought
            slot = slot_of(offset)
            owner = self._slots.owner(slot)
            if owner is None:
                former = next(iter(self._clients.former.of([slot], state.client.principal)), FormerSlot(group))
                if slot >= SLOTS or former.group not in (group, self._pools.rules.group_less):
                    return False
                owner = self._living_successor(former)
            elif not self._was_sent_without_group(state, owner, topic, index, offset):
                return False
            slots.add(slot)
            if owner is not None and owner.group != group:
                misplaced.add(owner)
        for owner in misplaced:
            slots |= owner.slots
            if (pool := self._pools.of_member(owner)) is not None:
                with self._pools.step(pool, now):
                    pool.members.forget_groupless(owner, Cause.LEFT, now)
        for slot in slots:
            self._clients.former.note(slot, state.client.principal, group)
        return bool(slots)

    def _was_sent_without_group(
        self, state: Connection, owner: Member, topic: TopicName, index: int, offset: int
    ) -> bool:
        if owner.id or owner.group != self._pools.rules.group_less or not state.may_be(owner):
            return False
        source = self._topics.partition(topic, index)
        window = owner.windows.get(source) if source is not None else None
        return window is not None and self._slots.start(slot_of(offset)) <= offset <= window.end

    def correct(self, pool: Pool, committer: Member, offsets: Iterable[int]) -> Member:
        """Corrects a wrong guess when a member commits. If another member of its pool was sent these offsets by a
        guess, the two members were confused. Returns the member that the commit is from."""
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
        """Exchanges the identities of two members. The records of each, and the connection on which it fetches,
        stay."""
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
    """Returns whether all offsets look like virtual ones. Called if none of them belongs to a member."""
    return bool(request.partitions) and all(looks_virtual(asked.offset) for asked in request.partitions)


def looks_virtual(offset: int) -> bool:
    """Returns whether a member may have been given this offset, in this run or in another one."""
    return slot_of(offset) >= LOWEST and not is_end(offset)
