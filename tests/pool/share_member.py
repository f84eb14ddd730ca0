"""A share member made of plain values: it joins, fetches, acknowledges and leaves as real ones do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.apis.answers import ConnectionId
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import ShareHeartbeatResult
from mesh.pool.groups.share_protocol import JOIN, LEAVE, ShareHeartbeat
from mesh.pool.share.requests import (
    ENDING,
    OPENING,
    AcknowledgeType,
    NamedPartition,
    ShareAcknowledgeResult,
    SharedFetch,
    SharedRequest,
    ShareFetchedPartition,
    ShareFetchResult,
)
from mesh.records.decode import decode_records
from mesh.records.spans import TopicName
from mesh.security.principals import ANONYMOUS, Principal
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import AcknowledgementBatch
from tests.pool.harness import World
from tests.pool.names import GROUP, HOST, MAXIMUM, ORDERS, source, value_of
from tests.records.reading import split_batches

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


@dataclass(slots=True)
class ShareMember:
    """A share member. acquired: how often its records were delivered, by partition and upstream offset; `gaps` has
    offsets that it was sent without a record."""

    world: World
    name: str
    coordinator: ConnectionId
    connection: ConnectionId
    group: GroupId = GROUP
    principal: Principal = ANONYMOUS
    epoch: int = 0
    member_epoch: int = 0
    acquired: dict[tuple[int, int], int] = field(default_factory=dict)
    gaps: set[tuple[int, int]] = field(default_factory=set)
    ticket: object | None = None
    """The ticket of the parked ShareFetch."""

    @classmethod
    def joined(cls, world: World, name: str = "s", **more: Principal) -> ShareMember:
        principal = more.get("principal", ANONYMOUS)
        member = cls(world, name, world.connect(principal), world.connect(principal), principal=principal)
        assert member.heartbeat(JOIN).error is ErrorCode.NONE
        return member

    @property
    def member_id(self) -> MemberId:
        return MemberId(f"{self.name}-of-its-own")

    @property
    def client(self) -> ClientIdentity:
        return ClientIdentity(self.name, HOST, self.principal)

    def partition(self, index: int) -> NamedPartition:
        return NamedPartition(self.world.cluster.topics.topic_id(ORDERS), index)

    # Its group

    def heartbeat(
        self, epoch: int | None = None, topics: tuple[TopicName, ...] | None = (ORDERS,)
    ) -> ShareHeartbeatResult:
        beat = ShareHeartbeat(
            member_id=self.member_id,
            epoch=self.member_epoch if epoch is None else epoch,
            topics=topics,
            client=self.client,
        )
        assert beat.problem is None
        ticket = self.world.ticket()
        self.world.do(self.world.cluster.shares.heartbeat(self.coordinator, ticket, self.group, beat, self.world.now))
        result = self.world.answer(ticket, ShareHeartbeatResult)
        if result.error is ErrorCode.NONE:
            self.member_epoch = result.epoch
        return result

    def leave(self) -> None:
        self.heartbeat(LEAVE)

    # Its session

    def ask(
        self,
        partitions: Iterable[int] = range(4),
        *,
        acknowledge: Mapping[int, Sequence[AcknowledgementBatch]] | None = None,
        epoch: int | None = None,
        most: int = 500,
        exact: bool = False,
        acquires: bool = True,
        renews: bool = False,
        forgotten: Iterable[int] = (),
        minimum: int = 1,
        maximum: int = MAXIMUM,
        longest: int = 500,
        wait: float = 0.5,
    ) -> object:
        """Sends a ShareFetch; `take` has its answer. An open session does not name partitions again."""
        asked_epoch = self.epoch if epoch is None else epoch
        request = SharedFetch(
            epoch=asked_epoch,
            acknowledgements={self.partition(index): each for index, each in (acknowledge or {}).items()},
            may_renew=renews,
            added=[self.partition(index) for index in partitions] if asked_epoch == OPENING else [],
            forgotten=[self.partition(index) for index in forgotten],
            minimum=minimum,
            maximum=maximum,
            wait=wait,
            most_records=most,
            longest_range=longest,
            is_exact=exact,
            acquires=acquires and not renews,
        )
        ticket = self.ticket = self.world.ticket()
        world = self.world
        world.do(
            world.cluster.shares.fetch(
                self.connection, ticket, self.group, self.member_id, self.client, request, world.now
            )
        )
        if epoch is None:
            self.epoch += 1
        return ticket

    @property
    def is_parked(self) -> bool:
        return self.ticket is not None and self.ticket not in self.world.answers

    def take(self) -> ShareFetchResult:
        """Takes the answer to its last ShareFetch, and the acquired records from it."""
        assert self.ticket is not None
        result = self.world.answer(self.ticket, ShareFetchResult)
        self.ticket = None
        for each in result.partitions:
            self._take(each)
        return result

    def fetch(self, partitions: Iterable[int] = range(4), **more: object) -> ShareFetchResult:
        """Sends one that is answered at once, or when its time is over."""
        self.ask(partitions, **more)  # type: ignore[arg-type]
        if self.is_parked:
            self.world.advance(0.5)
        return self.take()

    def _take(self, fetched: ShareFetchedPartition) -> None:
        """Goes through batches and ranges in step, as clients do; an offset without a record is a gap."""
        index = fetched.partition.number
        offsets = [offset for first, last, _ in fetched.acquired for offset in range(first, last + 1)]
        assert offsets == sorted(set(offsets)), "ranges overlap, or are not ascending"
        records = {
            record.offset: record.value
            for data in fetched.records
            for batch in split_batches(bytes(data))
            for record in decode_records(batch)
        }
        assert list(records) == sorted(records)
        for first, last, deliveries in fetched.acquired:
            for offset in range(first, last + 1):
                assert (index, offset) not in self.acquired, "it has that"
                if offset not in records:
                    self.gaps.add((index, offset))
                else:
                    assert records[offset] == value_of(source(index), offset)
                    self.world.given(self.group, index, offset, value_of(source(index), offset))
                self.acquired[index, offset] = deliveries

    def held(self, index: int) -> list[int]:
        return sorted(offset for where, offset in self.acquired if where == index)

    def acknowledge(
        self, batches: Mapping[int, Sequence[AcknowledgementBatch]], renews: bool = False, epoch: int | None = None
    ) -> object:
        """Sends a ShareAcknowledge; `World.answer` has its answer."""
        request = SharedRequest(
            epoch=self.epoch if epoch is None else epoch,
            acknowledgements={self.partition(index): each for index, each in batches.items()},
            may_renew=renews,
        )
        if epoch is None:
            self.epoch += 1
        ticket = self.world.ticket()
        self.world.do(
            self.world.cluster.shares.acknowledge(
                self.connection, ticket, self.group, self.member_id, request, self.world.now
            )
        )
        return ticket

    def say(self, kind: AcknowledgeType, index: int, offsets: Iterable[int] | None = None) -> ErrorCode:
        """Sends a ShareAcknowledge of one partition, by default for all that it has; returns the answer at once."""
        wanted = self.held(index) if offsets is None else list(offsets)
        ticket = self.acknowledge({index: batches_of(kind, wanted)}, renews=kind is RENEW)
        result = self.world.answer(ticket, ShareAcknowledgeResult)
        assert result.error is ErrorCode.NONE
        error = result.errors[self.partition(index)]
        if error is ErrorCode.NONE and kind is not RENEW:
            self.forget(index, wanted)
        return error

    def forget(self, index: int, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self.acquired.pop((index, offset), None)
            self.gaps.discard((index, offset))

    def end(self, acknowledge: Mapping[int, Sequence[AcknowledgementBatch]] | None = None) -> ShareAcknowledgeResult:
        """Closes its session cleanly."""
        ticket = self.acknowledge(acknowledge or {}, epoch=ENDING)
        self.epoch = 0
        self.acquired.clear()
        self.gaps.clear()
        return self.world.answer(ticket, ShareAcknowledgeResult)

    def disconnect(self) -> None:
        """Closes every connection at once, as when the process dies."""
        self.lose_session()
        self.world.disconnect(self.coordinator)

    def lose_session(self) -> None:
        """Closes the connection on which it fetches."""
        self.ticket = None
        self.epoch = 0
        self.acquired.clear()
        self.gaps.clear()
        self.world.disconnect(self.connection)

    def reconnect(self) -> None:
        self.connection = self.world.connect(self.principal)

    def at_node(self, node: int) -> ShareMember:
        """The same member at another node: it has a connection and a session there, and acquires records through it."""
        connection = self.world.connect(self.principal, node)
        there = ShareMember(self.world, self.name, self.coordinator, connection, self.group, self.principal)
        there.member_epoch = self.member_epoch
        return there


def batches_of(kind: AcknowledgeType, offsets: Iterable[int]) -> list[AcknowledgementBatch]:
    """One batch for each run of these offsets (ascending)."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and runs[-1][1] + 1 == offset:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    return [AcknowledgementBatch(first, last, bytes([kind])) for first, last in runs]


def mixed(kinds: Mapping[int, AcknowledgeType]) -> list[AcknowledgementBatch]:
    """One batch for each run of offsets, with a type for each offset."""
    found: list[AcknowledgementBatch] = []
    for offset in sorted(kinds):
        if found and found[-1].last + 1 == offset:
            before = found.pop()
            found.append(AcknowledgementBatch(before.first, offset, before.types + bytes([kinds[offset]])))
        else:
            found.append(AcknowledgementBatch(offset, offset, bytes([kinds[offset]])))
    return found
