"""Brokers of a cluster that act as a test wants, on real sockets in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from mesh.records.encode import encode_batch
from mesh.wire.apis import ApiKey
from mesh.wire.connection import FramedRequest, ServerConnection
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    ApiVersion,
    ApiVersionsResponse,
    Coordinator,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    MetadataBroker,
    MetadataPartitionResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicResponse,
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopicResponse,
    OffsetFetchGroupResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopicResponse,
)

TOPIC = "orders"
SERVED = {
    ApiKey.FETCH: (4, 17),
    ApiKey.METADATA: (0, 12),
    ApiKey.LIST_OFFSETS: (1, 7),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.OFFSET_FETCH: (1, 8),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.API_VERSIONS: (0, 4),
}


class FakeCluster:
    """A fake cluster with one topic. Tests change its fields; `changed` wakes parked Fetches. Node `coordinator`
    coordinates all groups.

    logs: batches by partition, with the first offset of each. begins: log start offsets. leaders: node ids. followers:
    nodes that serve the records of all partitions, whoever leads (KIP-392). errors: of a Fetch, by partition, answered
    once each. fetched: (node, partitions, max_wait_ms) of each Fetch. group_errors: of OffsetFetch, answered once each.
    committed: of every group, by partition. versions: the versions of Fetch that were used. silent: nodes that do not
    answer. described: the nodes that answered a Metadata request. asked: called at each Fetch. coordinator_errors: of
    FindCoordinator, answered once each. groups: the description of each, Dead for others; only from the coordinator.
    asked_for_groups: the nodes that were asked for one. describing: called then.
    """

    def __init__(self, partitions: int) -> None:
        self.logs: list[list[tuple[int, bytearray]]] = [[] for _ in range(partitions)]
        self.ends = [0] * partitions
        self.begins = [0] * partitions
        self.leaders = [1] * partitions
        self.followers: set[int] = set()
        self.epoch = 5
        self.topic_id = UUID(int=1)
        self.errors: dict[int, list[ErrorCode]] = {}
        self.group_errors: list[ErrorCode] = []
        self.committed: dict[int, int] = {}
        self.throttle_ms = 0
        self.silent: set[int] = set()
        self.fetched: list[tuple[int, dict[int, int], int]] = []
        self.versions: list[int] = []
        self.described: list[int] = []
        self.coordinator = 1
        self.coordinator_errors: list[ErrorCode] = []
        self.groups: dict[str, DescribedGroup] = {}
        self.asked_for_groups: list[int] = []
        self.describing: Callable[[], None] = lambda: None
        self.ports: dict[int, int] = {}
        self.asked: Callable[[], None] = lambda: None
        self._changed = asyncio.Condition()
        self.connections: set[asyncio.StreamWriter] = set()

    async def append(self, partition: int, count: int) -> None:
        base = self.ends[partition]
        self.logs[partition].append(
            (base, bytearray(encode_batch(base, [(base + n, 1, None, b"v", None) for n in range(count)]).data))
        )
        self.ends[partition] += count
        await self.changed()

    async def changed(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def serve(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = ServerConnection(SERVED)
        self.connections.add(writer)
        try:
            while data := await reader.read(65536):
                for request in wire.receive_data(data):
                    if node in self.silent:
                        continue
                    await self._answer(node, wire, request)
                    writer.writelines(wire.data_to_send())
        except ConnectionError:
            return
        finally:
            self.connections.discard(writer)
            writer.close()

    async def _answer(self, node: int, wire: ServerConnection, request: FramedRequest) -> None:
        message = request.decode()
        match message:
            case FetchRequest():
                self.versions.append(request.api_version)
                wire.answer(request, await self._fetch(node, message))
            case MetadataRequest():
                self.described.append(node)
                wire.answer(request, self._metadata())
            case ListOffsetsRequest():
                wire.answer(request, self._list_offsets(message))
            case FindCoordinatorRequest(coordinator_keys=keys):
                wire.answer(request, FindCoordinatorResponse(coordinators=tuple(map(self._coordinator_of, keys))))
            case DescribeGroupsRequest(groups=(group,)):
                self.asked_for_groups.append(node)
                self.describing()
                if node not in self.silent:
                    wire.answer(request, DescribeGroupsResponse(groups=(self._described(node, group),)))
            case OffsetDeleteRequest():
                wire.answer(request, self._deleted(node, message))
            case OffsetFetchRequest():
                wire.answer(request, self._positions(message))
            case _:
                versions = tuple(
                    ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in SERVED.items()
                )
                wire.answer(request, ApiVersionsResponse(api_keys=versions))

    def _coordinator_of(self, group: str) -> Coordinator:
        error = self.coordinator_errors.pop(0) if self.coordinator_errors else ErrorCode.NONE
        port = self.ports[self.coordinator]
        return Coordinator(key=group, node_id=self.coordinator, host="127.0.0.1", port=port, error_code=error)

    def _described(self, node: int, group: str) -> DescribedGroup:
        if node != self.coordinator:
            return DescribedGroup(group_id=group, error_code=ErrorCode.NOT_COORDINATOR)
        return self.groups.get(group, DescribedGroup(group_id=group, group_state="Dead"))

    def _deleted(self, node: int, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        if node != self.coordinator:
            return OffsetDeleteResponse(error_code=ErrorCode.NOT_COORDINATOR)
        if request.group_id not in self.groups:
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        numbers = [each.partition_index for topic in request.topics for each in topic.partitions]
        for number in numbers:
            self.committed.pop(number, None)
        deleted = tuple(OffsetDeletePartitionResponse(partition_index=number) for number in numbers)
        return OffsetDeleteResponse(topics=(OffsetDeleteTopicResponse(name=TOPIC, partitions=deleted),))

    def _metadata(self) -> MetadataResponse:
        return MetadataResponse(
            brokers=tuple(
                MetadataBroker(node_id=node, host="127.0.0.1", port=port) for node, port in self.ports.items()
            ),
            topics=(
                MetadataTopicResponse(
                    name=TOPIC,
                    topic_id=self.topic_id,
                    partitions=tuple(
                        MetadataPartitionResponse(partition_index=number, leader_id=leader, leader_epoch=self.epoch)
                        for number, leader in enumerate(self.leaders)
                    ),
                ),
            ),
        )

    def _list_offsets(self, message: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = message.topics
        answers = tuple(
            ListOffsetsPartitionResponse(
                partition_index=each.partition_index,
                offset=(self.begins if each.timestamp == -2 else self.ends)[each.partition_index],
            )
            for each in topic.partitions
        )
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name=topic.name, partitions=answers),))

    def _positions(self, message: OffsetFetchRequest) -> OffsetFetchResponse:
        (group,) = message.groups
        if self.group_errors:
            error = self.group_errors.pop(0)
            refused = OffsetFetchGroupResponse(group_id=group.group_id, topics=(), error_code=error)
            return OffsetFetchResponse(groups=(refused,))
        topics = tuple(
            OffsetFetchTopicResponse(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchPartitionResponse(partition_index=each, committed_offset=self.committed.get(each, -1))
                    for each in topic.partition_indexes
                ),
            )
            for topic in group.topics or ()
        )
        return OffsetFetchResponse(groups=(OffsetFetchGroupResponse(group_id=group.group_id, topics=topics),))

    async def _fetch(self, node: int, message: FetchRequest) -> FetchResponse:
        (topic,) = message.topics
        asked = {each.partition: each.fetch_offset for each in topic.partitions}
        self.fetched.append((node, asked, message.max_wait_ms))
        self.asked()
        answers = [self._part(node, topic.topic_id, each) for each in topic.partitions]
        if not any(each.records or each.error_code for each in answers):
            try:
                async with asyncio.timeout(message.max_wait_ms / 1_000), self._changed:
                    await self._changed.wait()
            except TimeoutError:
                pass
            answers = [self._part(node, topic.topic_id, each) for each in topic.partitions]
        answer = FetchTopicResponse(name=topic.name, topic_id=topic.topic_id, partitions=tuple(answers))
        return FetchResponse(throttle_time_ms=self.throttle_ms, topics=(answer,))

    def _part(self, node: int, topic_id: UUID | None, asked: FetchPartition) -> FetchPartitionResponse:
        number, offset = asked.partition, asked.fetch_offset
        if errors := self.errors.get(number):
            return FetchPartitionResponse(partition=number, error_code=errors.pop(0))
        if topic_id is not None and topic_id != self.topic_id:
            return FetchPartitionResponse(partition=number, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        if node not in {self.leaders[number], *self.followers}:
            return FetchPartitionResponse(partition=number, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not self.begins[number] <= offset <= self.ends[number]:
            return FetchPartitionResponse(partition=number, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        records = tuple(data for base, data in self.logs[number] if base >= offset)
        end = self.ends[number]
        return FetchPartitionResponse(partition=number, high_watermark=end, last_stable_offset=end, records=records)


@asynccontextmanager
async def fake_cluster(partitions: int, nodes: Sequence[int] = (1,)) -> AsyncIterator[FakeCluster]:
    cluster = FakeCluster(partitions)
    servers = []
    for node in nodes:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: int = node) -> None:
            await cluster.serve(node, reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        cluster.ports[node] = server.sockets[0].getsockname()[1]
        servers.append(server)
    try:
        yield cluster
    finally:
        for server in servers:
            server.close()
        for writer in list(cluster.connections):
            writer.close()
