"""Deletes committed offsets of an upstream group. librdkafka's Python client does not offer OffsetDelete, so the mesh
sends it over its own connections."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from mesh.records.spans import UpstreamPartition
from mesh.upstream.groups.coordinators import NoCoordinator, link_to_coordinator
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.wire.client import groups
from mesh.wire.client.groups import OFFSET_DELETE, TopicPartition
from mesh.wire.errors import ErrorCode, ProtocolError

RETRY_DELAY: Final = 0.2
"""Seconds between two attempts, while the coordinator moves."""
_MOVING: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


async def delete_offsets(
    nodes: Nodes, group: str, partitions: Collection[UpstreamPartition], seconds: float
) -> Mapping[UpstreamPartition, ErrorCode]:
    """Deletes the group's offsets of these partitions. Returns the error of each partition: COORDINATOR_NOT_AVAILABLE
    if no answer came in `seconds`. Never raises."""
    whole = ErrorCode.COORDINATOR_NOT_AVAILABLE
    asked: dict[TopicPartition, UpstreamPartition] = {(each.topic, each.partition): each for each in partitions}
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    code, errors = await _attempt(nodes, group, asked)
                except NoCoordinator as problem:
                    code, errors = problem.error_code, {}
                except (Unreachable, ProtocolError):
                    code, errors = ErrorCode.COORDINATOR_NOT_AVAILABLE, {}
                if code not in _MOVING:
                    break
                await asyncio.sleep(RETRY_DELAY)
            whole = _error(code)
    except TimeoutError:
        return dict.fromkeys(partitions, whole)
    if whole is not ErrorCode.NONE:
        return dict.fromkeys(partitions, whole)
    return {source: _error(errors.get(place, ErrorCode.UNKNOWN_SERVER_ERROR)) for place, source in asked.items()}


async def _attempt(
    nodes: Nodes, group: str, partitions: Collection[TopicPartition]
) -> tuple[int, Mapping[TopicPartition, int]]:
    link = await link_to_coordinator(nodes, group)
    if OFFSET_DELETE not in await link.versions():
        return ErrorCode.UNSUPPORTED_VERSION, {}
    return groups.decode_offset_delete(await link.request(groups.offset_delete_request(group, partitions)))


def _error(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
