"""A virtual cluster's server between clients on fake transports and engines that act as a test says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from prometheus_client.parser import text_string_to_metric_families

from mesh.listener.limits import ConnectionLimiter, Descriptors, Limits
from mesh.listener.listener import Listener
from mesh.memory import MemoryBudget
from mesh.pool.common.effects import DeadLetterUpstream
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import (
    CommittedUpstream,
    DeleteGroups,
    DeleteOffsets,
    FindGroupOffsets,
    GroupsDeleted,
    LogOffset,
    LogOffsets,
    LogOffsetsFound,
    OffsetsDeleted,
    OffsetsSet,
    Question,
    SetOffsets,
)
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.topics import ExplicitTopic, Source, VirtualTopics
from mesh.pool.core import PoolCore
from mesh.records.encode import encode_batch
from mesh.records.spans import ClusterName, CommitPosition, Span, TopicName, UpstreamPartition
from mesh.runtime.pool.administration import AdminResult
from mesh.runtime.pool.dead_letters import Ended
from mesh.runtime.pool.pool_samples import samples_of
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.pool.share_groups import ShareGroups
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    Committed,
    CommitToken,
    EngineEvent,
    HighWatermarks,
    Received,
    RereadToken,
    TopicsIdentified,
)
from mesh.upstream.store.store import Store
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import ENDPOINT, join_values
from tests.pool.apis.messages import Conversation
from tests.pool.harness import EU, GROUP, MAXIMUM, ORDERS, US, source, value_of

HIGH_WATER = 64 * 1024
"""asyncio's default: with more than this in its buffer a transport asks its protocol to stop writing."""


class FakeAdministration:
    """Upstream clusters with empty logs, to which no member ever committed."""

    def __init__(self) -> None:
        self.logins: list[tuple[ClusterName, str, str]] = []

    def change_login(self, cluster: ClusterName, username: str, password: str) -> None:
        self.logins.append((cluster, username, password))

    def close(self) -> None: ...

    async def ask(self, question: Question) -> AdminResult:
        match question:
            case FindGroupOffsets(groups, _):
                return CommittedUpstream({group: {} for group in groups}, {group: {} for group in groups})
            case LogOffsets(times):
                return LogOffsetsFound(dict.fromkeys(times, LogOffset(ErrorCode.NONE, 0)))
            case SetOffsets(_, positions):
                return OffsetsSet(dict.fromkeys(positions, ErrorCode.NONE))
            case DeleteGroups(groups):
                return GroupsDeleted(dict.fromkeys(groups, ErrorCode.GROUP_ID_NOT_FOUND))
            case DeleteOffsets(_, partitions):
                return OffsetsDeleted(dict.fromkeys(partitions, ErrorCode.GROUP_ID_NOT_FOUND))
            case _:
                assert_never(question)


class FakeTransport(asyncio.Transport):
    """The bytes that the mesh writes. stuck: the client reads nothing, so they stay in the transport's buffer."""

    def __init__(self, protocol: asyncio.Protocol, host: str) -> None:
        super().__init__(extra={"peername": (host, 40_000)})
        self._protocol = protocol
        self.written = bytearray()
        self.stuck = False
        self.reading = True
        self.closed = False
        self._asked_to_stop = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "written to a connection that is closed"
        self.written += data
        if self.stuck and len(self.written) > HIGH_WATER and not self._asked_to_stop:
            self._asked_to_stop = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def read_again(self) -> None:
        self.stuck = False
        if self._asked_to_stop:
            self._asked_to_stop = False
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.written) if self.stuck else 0

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close


class Peer(Conversation):
    """A client on one connection."""

    def __init__(self, server: PoolRuntime, client_id: str = "c", host: str = "10.0.0.1") -> None:
        super().__init__(client_id)
        self.protocol = server.accept()
        self.transport = FakeTransport(self.protocol, host)
        self._received: dict[int, Any] = {}
        self.order: list[int] = []
        """Correlation ids of answers, in the order of arrival."""
        self.member_id = ""
        self.generation = -1
        self.protocol.connection_made(self.transport)

    def send(self, api_key: ApiKey, version: int, /, **values: Any) -> int:
        """Returns the correlation id."""
        self.protocol.data_received(self.bytes_of(api_key, version, **values))
        return self.last

    def answer(self, correlation: int) -> Any:
        """The answer; None if there is none yet."""
        self.read()
        return self._received.pop(correlation, None)

    def ask(self, api_key: ApiKey, version: int, /, **values: Any) -> Any:
        answer = self.answer(self.send(api_key, version, **values))
        assert answer is not None, f"{api_key.name} v{version} is not answered"
        return answer

    def read(self) -> None:
        for correlation, answer in self.answers(bytes(self.transport.written)):
            self._received[correlation] = answer
            self.order.append(correlation)
        self.transport.written.clear()

    def die(self) -> None:
        self.protocol.connection_lost(ConnectionResetError())

    async def join(self, group: str = GROUP) -> None:
        correlation = self.send(ApiKey.JOIN_GROUP, 3, **join_values(group_id=group, member_id=self.member_id))
        await asyncio.sleep(0.3)
        answer = self.answer(correlation)
        assert answer.error_code == 0
        self.member_id, self.generation = answer.member_id, answer.generation_id

    def positions(self, group: str = GROUP) -> dict[int, int]:
        topics = ({"name": ORDERS, "partition_indexes": (0, 1, 2, 3)},)
        (topic,) = self.ask(ApiKey.OFFSET_FETCH, 3, group_id=group, topics=topics).topics
        return {partition.partition_index: partition.committed_offset for partition in topic.partitions}

    def fetch(self, positions: Mapping[int, int], **changes: Any) -> int:
        partitions = tuple(
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": MAXIMUM}
            for index, offset in positions.items()
        )
        values = {"max_wait": 500, "min_bytes": 1, "max_bytes": 50 * MAXIMUM, **changes}
        return self.send(ApiKey.FETCH, 11, topics=({"topic": ORDERS, "partitions": partitions},), **values)

    def commit(self, positions: Mapping[int, int], group: str = GROUP) -> int:
        partitions = tuple(
            {"partition_index": index, "committed_offset": offset} for index, offset in positions.items()
        )
        return self.send(
            ApiKey.OFFSET_COMMIT,
            7,
            group_id=group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=({"name": ORDERS, "partitions": partitions},),
        )

    def heartbeat(self, group: str = GROUP) -> int:
        values = {"group_id": group, "generation_id": self.generation, "member_id": self.member_id}
        return self.send(ApiKey.HEARTBEAT, 3, **values)

    def leave(self, group: str = GROUP) -> int:
        return self.send(ApiKey.LEAVE_GROUP, 2, group_id=group, member_id=self.member_id)


@dataclass(slots=True, eq=False)
class FakeEngine:
    """Implements `mesh.upstream.engine.Engine`. commands: the calls that it got; leaving: set when it may leave."""

    group: GroupId
    cluster: ClusterName
    deliver: Callable[[EngineEvent], None]
    store_at_once: bool = True
    commands: list[tuple[str, object]] = field(default_factory=list)
    commits: list[tuple[CommitToken, Mapping[UpstreamPartition, CommitPosition]]] = field(default_factory=list)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    last: Mapping[UpstreamPartition, CommitPosition] | None = None
    failure: Exception | None = None
    assigned: bool = False
    ends: dict[UpstreamPartition, int] = field(default_factory=dict)
    says_ends: bool = True
    leaves: bool = True

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        self.commands.append(("subscribe", topics))

    def set_consuming(self, consuming: bool) -> None:
        self.commands.append(("set_consuming", consuming))

    def pause(self, partitions: frozenset[UpstreamPartition]) -> None:
        self.commands.append(("pause", partitions))

    def resume(self, partitions: frozenset[UpstreamPartition]) -> None:
        self.commands.append(("resume", partitions))

    def commit(self, token: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        self.commands.append(("commit", {source: position.offset for source, position in positions.items()}))
        self.commits.append((token, positions))
        if self.store_at_once:
            asyncio.get_running_loop().call_soon(self.store)

    def reread(self, token: RereadToken, partition: UpstreamPartition, span: Span) -> None:
        self.commands.append(("reread", (partition, span)))

    def set_eager(self, eager: bool) -> None:
        self.commands.append(("set_eager", eager))

    def change_login(self, username: str, password: str) -> None:
        self.commands.append(("change_login", (username, password)))

    def look_at_ends(self, number: int) -> None:
        self.commands.append(("look_at_ends", number))
        if self.says_ends:
            ends = {source(index): self.ends.get(source(index), 0) for index in range(4)}
            mine = {each: end for each, end in ends.items() if each.cluster == self.cluster}
            asyncio.get_running_loop().call_soon(self.deliver, HighWatermarks(mine, looked=number))

    async def close(
        self, positions: Mapping[UpstreamPartition, CommitPosition], *, leaves: bool = True
    ) -> Mapping[UpstreamPartition, int]:
        self.last, self.leaves = positions, leaves
        await self.leaving.wait()
        if self.failure is not None:
            raise self.failure
        return dict.fromkeys(positions, 0)

    def store(self, error: int = 0) -> None:
        token, positions = self.commits.pop(0)
        self.deliver(Committed(token, dict.fromkeys(positions, error)))

    def assign(self, indexes: Iterable[int] = range(4)) -> None:
        """Assigns all partitions of this cluster, from their beginning."""
        self.assigned = True
        mine = (source(index) for index in indexes if source(index).cluster == self.cluster)
        self.deliver(Assigned(tuple(AssignedPartition(each, 0, CommitPosition(0), False, 0) for each in mine)))
        self.deliver(TopicsIdentified({source(0).topic: ""}))

    def produce(self, index: int, first: int, count: int = 10, value: bytes = b"") -> None:
        """Brings one batch of partition `index`."""
        partition = source(index)
        records = [
            (offset, 0, None, value or value_of(partition, offset), None) for offset in range(first, first + count)
        ]
        self.deliver(Received(partition, (encode_batch(first, records),)))

    def produce_next(self, index: int, count: int) -> None:
        """Brings the next records of that partition, if it belongs to this cluster."""
        if source(index).cluster == self.cluster:
            first = self.ends.get(source(index), 0)
            self.ends[source(index)] = first + count
            self.produce(index, first, count)


def requests_in_work(server: PoolRuntime) -> int:
    return sum(each.is_busy for each in server.listener.connections.values())


class Bench:
    """store_at_once: upstream commits succeed. leave_at_once: engines do not wait when they are closed."""

    def __init__(
        self,
        settings: PoolSettings | None = None,
        rules: GroupRules | None = None,
        store_at_once: bool = True,
        leave_at_once: bool = True,
        limits: Limits | None = None,
        descriptors: int = 1 << 20,
        memory: MemoryBudget | None = None,
        listener: Listener | None = None,
        store: Store | None = None,
    ) -> None:
        memory = memory or MemoryBudget(1 << 30)
        topics = VirtualTopics("vc", [ExplicitTopic(ORDERS, (Source(EU, ORDERS), Source(US, ORDERS)))], [])
        share_groups = ShareGroups("vc", store)
        cluster = PoolCore(
            "vc", topics, rules or GroupRules(), settings or PoolSettings(), memory, random.Random(7), share_groups
        )
        self.store_at_once = store_at_once
        self.leave_at_once = leave_at_once
        self.engines: list[FakeEngine] = []
        self.administration = FakeAdministration()
        self.create: Callable[[GroupId, ClusterName, Callable[[EngineEvent], None]], FakeEngine] = self._create
        self.refreshed = 0
        self.dead_letters: list[tuple[DeadLetterUpstream, Ended]] = []
        self.metrics = Metrics()
        self.upstream_health = UpstreamHealth((EU, US), asyncio.get_running_loop().time)
        self.metrics.add_collector(self.upstream_health.samples)
        self.limiter = ConnectionLimiter(
            limits or Limits(request_rate=1 << 40, request_rate_per_address=1 << 40), Descriptors(descriptors), memory
        )
        self.server = PoolRuntime(
            cluster,
            listener or Listener("vc", self.metrics, limiter=self.limiter),
            ENDPOINT,
            lambda *arguments: self.create(*arguments),
            self._refresh,
            self.upstream_health,
            self.administration,
            share_groups,
            self._bury,
        )
        self.metrics.add_collector(lambda: samples_of(self.server))
        for name in (EU, US):
            self.server.topics_changed(name, {ORDERS: 2})

    def _create(self, group: GroupId, cluster: ClusterName, deliver: Callable[[EngineEvent], None]) -> FakeEngine:
        engine = FakeEngine(group, cluster, deliver, self.store_at_once)
        if self.leave_at_once:
            engine.leaving.set()
        self.engines.append(engine)
        return engine

    def _bury(self, effect: DeadLetterUpstream, ended: Ended) -> None:
        self.dead_letters.append((effect, ended))

    def _refresh(self) -> None:
        self.refreshed += 1

    def peer(self, client_id: str = "c", host: str = "10.0.0.1") -> Peer:
        return Peer(self.server, client_id, host)

    async def member(self, client_id: str = "c", group: str = GROUP) -> Peer:
        peer = self.peer(client_id)
        await peer.join(group)
        return peer

    def engine(self, cluster: ClusterName = EU, group: str = GROUP) -> FakeEngine:
        """The newest engine."""
        return next(each for each in reversed(self.engines) if (each.group, each.cluster) == (group, cluster))

    def metric(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of that name, by the values of their labels without the virtual cluster's, in no given order."""
        text = b"".join(self.metrics.exposition()).decode()
        return {
            tuple(value for label, value in sorted(sample.labels.items()) if label != "virtual_cluster"): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }
