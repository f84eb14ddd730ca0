"""The requests of tools to the upstream clusters.

They go through librdkafka's admin client, which never blocks the event loop. Where that may not be used, they run in
threads (`mesh.upstream.positions`), or over the mesh's own connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol, TypeAlias, assert_never

import anyio
from anyio.to_thread import run_sync
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

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
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.admin import LazyAdmin
from mesh.upstream.groups.offset_deletion import delete_offsets
from mesh.upstream.librdkafka_log import LOG
from mesh.upstream.librdkafka_properties import Properties
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.positions import committed_positions
from mesh.wire.errors import ErrorCode

REQUEST_TIMEOUT: Final = 4.0
"""Seconds that a request may take. Kafka's tools give up after 5."""
UNREACHABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
GROUPS_AT_A_TIME: Final = 8
"""The most groups whose committed offsets are requested at a time. Each takes a thread and a connection."""


AdminResult: TypeAlias = CommittedUpstream | LogOffsetsFound | OffsetsSet | GroupsDeleted | OffsetsDeleted


class Administration(Protocol):
    async def ask(self, question: Question) -> AdminResult:
        """Answers a question. It never raises: if a cluster does not answer, the answer has an error."""

    def change_login(self, cluster: ClusterName, username: str, password: str) -> None:
        """Uses another user name and password at a cluster from the next connection on."""

    def close(self) -> None: ...


class UpstreamAdministration:
    """The requests of tools to the upstream clusters of one virtual cluster. prefix: the prefix of group ids
    upstream. settings_of: returns the settings of the mesh's own connections to a cluster, None if there are none."""

    def __init__(
        self,
        clusters: Mapping[ClusterName, Properties],
        prefix: str,
        settings_of: Callable[[ClusterName], ConnectionSettings | None],
    ) -> None:
        self._clusters = {name: {**each, "logger": LOG.named(name)} for name, each in clusters.items()}
        self._admins = {name: LazyAdmin(properties) for name, properties in self._clusters.items()}
        self._nodes: dict[ClusterName, Nodes] = {}
        """The mesh's own connections to clusters in which offsets were deleted."""
        self._making = {name: anyio.Lock() for name in clusters}
        self._prefix = prefix
        self._settings_of = settings_of
        self._readers = anyio.CapacityLimiter(GROUPS_AT_A_TIME)

    async def ask(self, question: Question) -> AdminResult:
        match question:
            case FindGroupOffsets(groups, partitions):
                return await self._fetch_committed(groups, partitions)
            case LogOffsets(times, read_committed):
                return await self._log_offsets(times, read_committed)
            case SetOffsets(group, offsets):
                return await self._set(group, offsets)
            case DeleteGroups(groups):
                errors = await asyncio.gather(*(self._delete(group) for group in groups))
                return GroupsDeleted(dict(zip(groups, errors, strict=True)))
            case DeleteOffsets(group, partitions):
                return await self._delete_offsets(group, partitions)
            case _:
                assert_never(question)

    def change_login(self, cluster: ClusterName, username: str, password: str) -> None:
        if cluster in self._clusters:
            self._clusters[cluster] |= {"sasl.username": username, "sasl.password": password}
            self._admins[cluster].change_login(username, password)

    def close(self) -> None:
        for nodes in self._nodes.values():
            nodes.close()
        for admin in self._admins.values():
            admin.close()

    async def _client(self, cluster: ClusterName) -> AdminClient:
        """The admin client of a cluster. It takes seconds to make one that waits for a token. Raises KafkaException."""
        async with self._making[cluster]:
            return await run_sync(self._admins[cluster].client, abandon_on_cancel=True)

    async def _fetch_committed(
        self, groups: tuple[GroupId, ...], partitions: Collection[UpstreamPartition]
    ) -> CommittedUpstream:
        offsets: dict[GroupId, dict[UpstreamPartition, int]] = {group: {} for group in groups}
        errors: dict[GroupId, dict[ClusterName, ErrorCode]] = {group: {} for group in groups}
        deadline = asyncio.get_running_loop().time() + REQUEST_TIMEOUT
        asked = {name: [each for each in partitions if each.cluster == name] for name in self._clusters}

        async def look(group: GroupId, cluster: ClusterName) -> None:
            properties = {**self._clusters[cluster], "group.id": self._prefix + group}
            async with self._readers:
                left = deadline - asyncio.get_running_loop().time()
                try:
                    if left <= 0:  # earlier requests, of this or another cluster, have used up the time
                        errors[group][cluster] = UNREACHABLE
                    else:
                        found = await run_sync(
                            committed_positions, properties, asked[cluster], left, abandon_on_cancel=True
                        )
                        offsets[group] |= found
                except KafkaException as failure:
                    errors[group][cluster] = _code(failure.args[0])

        await asyncio.gather(*(look(group, cluster) for group in groups for cluster in self._admins))
        return CommittedUpstream(offsets, errors)

    async def _log_offsets(self, times: Mapping[UpstreamPartition, int], read_committed: bool) -> LogOffsetsFound:
        isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED

        async def look(cluster: ClusterName) -> dict[UpstreamPartition, LogOffset]:
            asked = {TopicPartition(each.topic, each.partition): each for each in times if each.cluster == cluster}
            specs = {place: _spec(times[source]) for place, source in asked.items()}
            try:
                client = await self._client(cluster)
            except KafkaException as failure:
                return {source: LogOffset(_code(failure.args[0])) for source in asked.values()}
            futures = client.list_offsets(specs, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT)
            waiting = {asked[place]: asyncio.wrap_future(future) for place, future in futures.items()}
            return {source: await _found(future, times[source]) for source, future in waiting.items()}

        parts = await asyncio.gather(*(look(cluster) for cluster in {source.cluster for source in times}))
        return LogOffsetsFound({source: offset for part in parts for source, offset in part.items()})

    async def _set(self, group: GroupId, offsets: Mapping[UpstreamPartition, int]) -> OffsetsSet:
        async def commit(cluster: ClusterName) -> dict[UpstreamPartition, ErrorCode]:
            sources = [source for source in offsets if source.cluster == cluster]
            places = [TopicPartition(source.topic, source.partition, offsets[source]) for source in sources]
            request = [ConsumerGroupTopicPartitions(self._prefix + group, places)]
            try:
                client = await self._client(cluster)
                (future,) = client.alter_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT).values()
                done = await asyncio.wrap_future(future)
            except KafkaException as failure:
                return dict.fromkeys(sources, _code(failure.args[0]))
            return {
                UpstreamPartition(cluster, TopicName(each.topic), each.partition): _code(each.error)
                for each in done.topic_partitions
            }

        parts = await asyncio.gather(*(commit(cluster) for cluster in {source.cluster for source in offsets}))
        return OffsetsSet({source: error for part in parts for source, error in part.items()})

    async def _delete(self, group: GroupId) -> ErrorCode:
        """Deletes a group in all clusters. Returns NONE if one cluster knew it and none refused."""

        async def delete(cluster: ClusterName) -> ErrorCode:
            group_id = self._prefix + group
            try:
                client = await self._client(cluster)
                (future,) = client.delete_consumer_groups([group_id], request_timeout=REQUEST_TIMEOUT).values()
                await asyncio.wrap_future(future)
            except KafkaException as failure:
                return _code(failure.args[0])
            return ErrorCode.NONE

        errors = set(await asyncio.gather(*(delete(cluster) for cluster in self._admins)))
        refused = errors - {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}
        if refused:
            return min(refused)
        return ErrorCode.NONE if ErrorCode.NONE in errors else ErrorCode.GROUP_ID_NOT_FOUND

    async def _delete_offsets(self, group: GroupId, partitions: Collection[UpstreamPartition]) -> OffsetsDeleted:
        async def delete(cluster: ClusterName) -> Mapping[UpstreamPartition, ErrorCode]:
            sources = [source for source in partitions if source.cluster == cluster]
            nodes = self._nodes_of(cluster)
            if nodes is None:
                return dict.fromkeys(sources, ErrorCode.UNSUPPORTED_VERSION)
            return await delete_offsets(nodes, self._prefix + group, sources, REQUEST_TIMEOUT)

        parts = await asyncio.gather(*(delete(cluster) for cluster in {source.cluster for source in partitions}))
        return OffsetsDeleted({source: error for part in parts for source, error in part.items()})

    def _nodes_of(self, cluster: ClusterName) -> Nodes | None:
        """The nodes of a cluster; None for a cluster to which the mesh cannot make its own connections."""
        if cluster not in self._nodes:
            settings = self._settings_of(cluster)
            if settings is None:
                return None
            self._nodes[cluster] = Nodes(cluster, self._clusters[cluster]["bootstrap.servers"], settings)
        return self._nodes[cluster]


async def _found(future: asyncio.Future[Any], time: int) -> LogOffset:
    try:
        result = await future
    except KafkaException as failure:
        return LogOffset(_code(failure.args[0]))
    if result.offset < 0 and time in (-1, -2):
        # librdkafka returns a negative offset, not an error, when a broker does not answer (2.16).
        return LogOffset(ErrorCode.LEADER_NOT_AVAILABLE)
    return LogOffset(ErrorCode.NONE, result.offset, result.timestamp)


def _spec(time: int) -> OffsetSpec:
    match time:
        case -1:
            return OffsetSpec.latest()  # type: ignore[no-untyped-call,no-any-return]
        case -2:
            return OffsetSpec.earliest()  # type: ignore[no-untyped-call,no-any-return]
        case -3:
            return OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call,no-any-return]
        case _:
            return OffsetSpec.for_timestamp(time)  # type: ignore[no-any-return]


def _code(error: KafkaError | None) -> ErrorCode:
    """Kafka's error code. librdkafka's own errors are negative, and mean that there was no answer."""
    if error is None:
        return ErrorCode.NONE
    try:
        return ErrorCode(error.code()) if error.code() > 0 else UNREACHABLE
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
