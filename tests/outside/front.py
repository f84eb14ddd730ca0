"""A cluster and a mesh behind one address, for programs that create topics, produce and consume: requests that a pool
serves go to the mesh, all others directly to the cluster.

The mesh advertises the addresses of the front, so the front only has to rename the coordinators of transactions. The
versions of an API are those of the side that serves it. APIs that use positions in the cluster's logs, or serve other
kinds of groups, are not advertised, because the mesh has neither.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO
from struct import Struct
from typing import Any, Final

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

from mesh.pool.apis.context import NodePair
from mesh.wire.apis import APIS, ApiKey, is_flexible
from mesh.wire.decoder import decode_request
from mesh.wire.encoder import encode_response
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    ApiVersion,
    ApiVersionsResponse,
    DescribeConfigsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
)
from mesh.wire.reader import Cursor
from tests.integration.processes import free_port

_START: Final = Struct(">hhi")
_LENGTH: Final = Struct(">i")
OF_BOTH: Final = frozenset({ApiKey.DESCRIBE_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
"""Configurations: those of groups are the mesh's, all others the cluster's."""
OF_THE_MESH: Final = frozenset(APIS) - {ApiKey.PRODUCE, ApiKey.API_VERSIONS, *OF_BOTH}
NOT_ADVERTISED: Final = frozenset({23, 25, 28, 71, 72, 74, 75, *range(76, 80), *range(83, 93)})
GROUP: Final = 32
"""The resource type of a group."""
"""OffsetForLeaderEpoch; offsets in transactions; telemetry; topics by id; share and streams groups."""
HIGHEST: Final[Mapping[int, int]] = {ApiKey.PRODUCE: 12}
"""From v13 on it names topics by ids, which differ at the mesh."""
FIRST_AUTO_CREATING: Final = 4
OF_A_TRANSACTION: Final = 1
"""The key type of a transaction in FindCoordinator."""
Versions = Mapping[int, tuple[int, int]]


class Front:
    """A thread that listens on a new address for each address of the mesh that it stands in front of."""

    def __init__(self, cluster: str) -> None:
        """cluster: the address of its only broker."""
        self._cluster = _split(cluster)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def stand_in_for(self, address: str) -> str:
        """The address to connect to instead of this one of the mesh."""
        host, _ = _split(address)
        own = free_port()

        async def listen() -> None:
            await asyncio.start_server(partial(self._serve, _split(address), (host, own)), host, own)

        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(10)
        return f"{host}:{own}"

    def close(self) -> None:
        """Stops listening, and closes every connection."""

        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(
        self,
        mesh: tuple[str, int],
        own: tuple[str, int],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        links: list[Link] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                to_mesh, to_cluster = links = [Link(mesh, tasks), Link(self._cluster, tasks)]
                client = _Client(to_mesh, to_cluster, own, reader, writer)
                tasks.create_task(client.answer())
                tasks.create_task(client.take())
        except* (OSError, EOFError):
            pass  # one of the three is gone, and with it the connection
        finally:
            for closed in (writer, *(link.writer for link in links if link.writer)):
                closed.transport.abort()


class Link:
    """A connection to the mesh or to the cluster, opened when it is first needed; answers come in the order asked."""

    def __init__(self, address: tuple[str, int], tasks: asyncio.TaskGroup) -> None:
        """tasks: the group in which it receives; they end with it."""
        self._address = address
        self._tasks = tasks
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, frame: bytes, *, is_answered: bool = True) -> asyncio.Future[bytes]:
        """A future answer, without its length; empty at once if the request has none."""
        if self.writer is None:
            reader, self.writer = await asyncio.open_connection(*self._address)
            self._tasks.create_task(self._receive(reader))
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if is_answered:
            self._waiting.append(answer)
        else:
            answer.set_result(b"")
        self.writer.write(_LENGTH.pack(len(frame)) + frame)
        await self.writer.drain()
        return answer

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        while True:
            frame = await _frame(reader)
            self._waiting.popleft().set_result(frame)


class _Client:
    def __init__(
        self,
        mesh: Link,
        cluster: Link,
        own: tuple[str, int],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """own: the address that the client connected to."""
        self._mesh, self._cluster, self._own = mesh, cluster, own
        self._reader, self._writer = reader, writer
        self._answers: asyncio.Queue[Awaitable[bytes]] = asyncio.Queue()

    async def take(self) -> None:
        """Passes requests on, in order, until the client goes."""
        while True:
            frame = await _frame(self._reader)
            await self._answers.put(await self._pass_on(frame))

    async def answer(self) -> None:
        """Answers in the order of the requests."""
        while True:
            answer = await (await self._answers.get())
            if answer:
                self._writer.write(_LENGTH.pack(len(answer)) + answer)
                await self._writer.drain()

    async def _pass_on(self, frame: bytes) -> Awaitable[bytes]:
        key, version, _ = _START.unpack_from(frame)
        if key == ApiKey.API_VERSIONS:
            return _ready(await self._versions(frame))
        if key == ApiKey.FIND_COORDINATOR and _key_type(frame) == OF_A_TRANSACTION:
            return self._renamed(await self._cluster.ask(frame), version)
        if key == ApiKey.METADATA and version >= FIRST_AUTO_CREATING:
            await (await self._cluster.ask(frame))  # which may create topics
        if key in OF_THE_MESH or (key in OF_BOTH and _is_about_groups(frame)):
            return await self._mesh.ask(frame)
        return await self._cluster.ask(frame, is_answered=key != ApiKey.PRODUCE or _acknowledgements(frame) != 0)

    async def _versions(self, frame: bytes) -> bytes:
        _, version, _ = _START.unpack_from(frame)
        served = await _served(self._cluster)
        served = {key: versions for key, versions in served.items() if key not in NOT_ADVERTISED | OF_THE_MESH}
        served |= {key: versions for key, versions in (await _served(self._mesh)).items() if key in OF_THE_MESH}
        for key, highest in HIGHEST.items():
            served[key] = served[key][0], min(served[key][1], highest)
        is_known = version <= APIS[ApiKey.API_VERSIONS].highest
        error = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_VERSION
        return frame[4:8] + _versions_body(version if is_known else 0, error, served)

    async def _renamed(self, answering: asyncio.Future[bytes], version: int) -> bytes:
        """The answer about a coordinator of transactions at this address."""
        answer = await answering
        schema = load_response_schema(ApiKey.FIND_COORDINATOR, version)
        start = 5 if is_flexible(ApiKey.FIND_COORDINATOR, version) else 4
        read: Callable[[bytes, int], tuple[Any, int]] = entity_reader(schema)
        found, _ = read(answer, start)
        here = {"host": self._own[0], "port": self._own[1], "node_id": NodePair.of(1).broker}
        if hasattr(found, "coordinators"):
            found = replace(found, coordinators=tuple(replace(each, **here) for each in found.coordinators))
        else:
            found = replace(found, **here)
        written = BytesIO()
        entity_writer(schema)(written, found)
        return b"".join((answer[:start], written.getvalue()))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(length)


async def _served(link: Link) -> Versions:
    asked = _START.pack(ApiKey.API_VERSIONS, 0, 0) + b"\xff\xff"
    answer = await (await link.ask(asked))
    read: Callable[[bytes, int], tuple[Any, int]] = entity_reader(load_response_schema(ApiKey.API_VERSIONS, 0))
    found, _ = read(answer, _LENGTH.size)
    return {int(each.api_key): (int(each.min_version), int(each.max_version)) for each in found.api_keys}


def _versions_body(version: int, error: ErrorCode, served: Versions) -> bytes:
    keys = (ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in sorted(served.items()))
    response = ApiVersionsResponse(error_code=error, api_keys=tuple(keys))
    return b"".join(encode_response(ApiKey.API_VERSIONS, version, response))


def _body(frame: bytes) -> tuple[Cursor, int]:
    """A cursor behind the header, and the version."""
    cursor = Cursor(frame)
    key, version, _ = cursor.unpack(_START)
    cursor.nullable_string()
    if is_flexible(ApiKey(key), version):
        cursor.skip_tagged_fields()
    return cursor, version


def _key_type(frame: bytes) -> int:
    cursor, version = _body(frame)
    request = decode_request(ApiKey.FIND_COORDINATOR, version, cursor)
    assert isinstance(request, FindCoordinatorRequest)
    return request.key_type


def _is_about_groups(frame: bytes) -> bool:
    cursor, version = _body(frame)
    request = decode_request(ApiKey(_START.unpack_from(frame)[0]), version, cursor)
    assert isinstance(request, DescribeConfigsRequest | IncrementalAlterConfigsRequest)
    return any(each.resource_type == GROUP for each in request.resources)


def _acknowledgements(frame: bytes) -> int:
    """The `acks` of a Produce request; 0: the client waits for no answer."""
    cursor, version = _body(frame)
    if is_flexible(ApiKey.PRODUCE, version):
        cursor.compact_nullable_string()
    else:
        cursor.nullable_string()
    return cursor.int16()


async def _ready(answer: bytes) -> bytes:
    return answer


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
