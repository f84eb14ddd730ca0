"""A client made of plain values: it joins, fetches, commits and leaves as real ones do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from mesh.apis.answers import ConnectionId
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import ConsumerHeartbeatResult, HeartbeatResult, JoinResult, SyncResult
from mesh.pool.distribution.slicing import can_be_cut
from mesh.pool.groups.consumer_protocol import JOIN, LEAVE, ConsumerHeartbeat
from mesh.pool.groups.membership import JoinRequest, SyncRequest
from mesh.pool.state.fetch import FetchedPartition, FetchParameters, FetchResult, RequestedPartition
from mesh.records.decode import decode_records
from mesh.records.spans import TopicName
from mesh.security.principals import ANONYMOUS, Principal
from mesh.wire.errors import ErrorCode
from tests.pool.names import GROUP, HOST, MAXIMUM, NOBODY, ORDERS
from tests.records.reading import split_batches

if TYPE_CHECKING:
    from tests.pool.harness import World

Protocol: TypeAlias = Literal["classic", "consumer"]


@dataclass(slots=True)
class Consumer:
    """A client: its identity, and its positions."""

    world: World
    name: str
    coordinator: ConnectionId
    fetching: ConnectionId
    member_id: MemberId = NOBODY
    generation: int = -1
    instance_id: str | None = None
    group: GroupId = GROUP
    positions: dict[int, int] = field(default_factory=dict)
    received: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(partition, virtual offset, value), in the order of their arrival."""
    principal: Principal = ANONYMOUS
    damaged: int = 0
    """Batches that it could not read; it stops there."""
    ticket: object | None = None
    """The ticket of the parked Fetch."""

    @property
    def asks_to_join_again(self) -> ErrorCode:
        """True for a heartbeat that tells it to join again."""
        return ErrorCode.REBALANCE_IN_PROGRESS

    @property
    def client(self) -> ClientIdentity:
        return ClientIdentity(self.name, HOST, self.principal)

    def join(self, **changes: object) -> JoinResult:
        request = JoinRequest(
            member_id=self.member_id,
            instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=(("range", b"subscription"),),
            session_timeout=45.0,
            rebalance_timeout=60.0,
            must_know_id=False,
            client=self.client,
        )
        request = replace(request, **changes)  # type: ignore[arg-type]
        ticket = self.world.ticket()
        self.world.do(self.world.cluster.groups.join(self.coordinator, ticket, self.group, request, self.world.now))
        if ticket not in self.world.answers:
            self.world.advance(0.2)
        result = self.world.answer(ticket, JoinResult)
        if result.error is ErrorCode.NONE:
            self.member_id, self.generation = result.member_id, result.generation
            sync = self.world.ticket()
            self.world.do(
                self.world.cluster.groups.sync(
                    self.coordinator,
                    sync,
                    self.group,
                    SyncRequest(
                        member_id=self.member_id,
                        instance_id=self.instance_id,
                        generation=self.generation,
                        protocol_type="consumer",
                        protocol_name="range",
                        assignment=b"all",
                    ),
                    self.world.now,
                )
            )
            assert self.world.answer(sync, SyncResult).assignment == b"all"
            self.reset()
        return result

    def reset(self, partitions: Iterable[int] = range(4)) -> None:
        """Takes the committed positions, as a client does after a join."""
        names = [(ORDERS, partition) for partition in partitions]
        committed, effects = self.world.cluster.committed_offsets(
            self.coordinator, self.name, self.group, self.member_id, names, self.world.now
        )
        self.world.do(effects)
        for (_, partition), (error, offset) in committed.offsets.items():
            assert error is ErrorCode.NONE
            assert offset >= 0
            self.positions[partition] = offset

    def fetch(
        self,
        minimum: int = 1,
        wait: float = 0.5,
        maximum: int = MAXIMUM,
        partitions: Iterable[int] | None = None,
        partition_maximum: int = MAXIMUM,
    ) -> object:
        asked = list(partitions) if partitions is not None else sorted(self.positions)
        request = FetchParameters(
            [
                RequestedPartition(ORDERS, partition, self.positions[partition], partition_maximum)
                for partition in asked
            ],
            minimum,
            maximum,
            wait,
        )
        ticket = self.ticket = self.world.ticket()
        self.world.asked(self)
        self.world.fetches[ticket] = (self, asked)
        self.world.do(self.world.cluster.fetch(self.fetching, self.name, ticket, request, self.world.now))
        return ticket

    @property
    def is_parked(self) -> bool:
        return self.ticket is not None

    def take(self, asked: list[int], result: FetchResult) -> None:
        self.ticket = None
        for partition, fetched in zip(asked, result.partitions, strict=True):
            self._take(partition, fetched)

    def _take(self, partition: int, fetched: FetchedPartition) -> None:
        if fetched.error is not ErrorCode.NONE:
            assert fetched.high_watermark == -1
            return
        position = self.positions[partition]
        end = position
        for data in fetched.records:
            for batch in split_batches(bytes(data)):
                if not can_be_cut(batch):
                    self.damaged += 1
                    return
                for record in decode_records(batch):
                    assert record.value is not None
                    if record.offset >= position:  # clients drop records below their position
                        self.received.append((partition, record.offset, record.value))
                        self.world.given(self.group, partition, record.offset, record.value)
                end = max(end, batch.last + 1)
        if fetched.records:
            assert fetched.high_watermark == end
        self.positions[partition] = end

    def commit(self, positions: dict[int, int] | None = None, **changes: object) -> object:
        ticket = self.world.ticket()
        wanted = self.positions if positions is None else positions
        arguments: dict[str, object] = {
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "generation": self.generation,
            **changes,
        }
        self.world.commits[ticket] = (self, dict(wanted))
        self.world.committing(self, wanted)
        self.world.do(
            self.world.cluster.commit(
                self.coordinator,
                ticket,
                self.group,
                arguments["member_id"],  # type: ignore[arg-type]
                arguments["instance_id"],  # type: ignore[arg-type]
                arguments["generation"],  # type: ignore[arg-type]
                [(ORDERS, partition, offset) for partition, offset in wanted.items()],
                self.world.now,
            )
        )
        return ticket

    def leave(self) -> None:
        ticket = self.world.ticket()
        members = ((self.member_id, self.instance_id),)
        self.world.do(self.world.cluster.groups.leave(self.coordinator, ticket, self.group, members, self.world.now))

    def heartbeat(self) -> ErrorCode:
        ticket = self.world.ticket()
        self.world.do(
            self.world.cluster.groups.heartbeat(
                self.coordinator,
                ticket,
                self.group,
                self.member_id,
                self.instance_id,
                self.generation,
                self.world.now,
            )
        )
        return self.world.answer(ticket, HeartbeatResult).error

    def disconnect(self) -> None:
        """Closes every connection at once, as when the process dies."""
        self.ticket = None
        for connection in (self.fetching, self.coordinator):
            self.world.disconnect(connection)


@dataclass(slots=True)
class EpochConsumer(Consumer):
    """A client of the consumer protocol (KIP-848): its generation is its epoch."""

    assigned: dict[TopicName, int] = field(default_factory=dict)

    @property
    def asks_to_join_again(self) -> ErrorCode:
        return ErrorCode.FENCED_MEMBER_EPOCH

    def join(self, **changes: object) -> JoinResult:
        assert not changes
        self.member_id = self.member_id or MemberId(f"{self.name}-of-its-own")
        self.assigned = {}
        result = self._beat(JOIN)
        if result.error is ErrorCode.NONE:
            self.reset()
        return JoinResult(result.error, result.member_id, result.epoch)

    def heartbeat(self) -> ErrorCode:
        return self._beat(self.generation).error

    def leave(self) -> None:
        self._beat(LEAVE)

    def _beat(self, epoch: int) -> ConsumerHeartbeatResult:
        heartbeat = ConsumerHeartbeat(
            member_id=self.member_id,
            epoch=epoch,
            instance_id=self.instance_id,
            rebalance_timeout=60.0,
            topics=(ORDERS,),
            assignor=None,
            owned={name: frozenset(range(count)) for name, count in self.assigned.items()},
            client=self.client,
        )
        world, ticket = self.world, self.world.ticket()
        world.do(world.cluster.groups.consumer_heartbeat(self.coordinator, ticket, self.group, heartbeat, world.now))
        result = world.answer(ticket, ConsumerHeartbeatResult)
        if result.error is ErrorCode.NONE:
            self.generation = result.epoch
            self.assigned = dict(result.assignment) if result.assignment is not None else self.assigned
        return result
