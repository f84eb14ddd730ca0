"""Looks up the bounds of a log, and the ends of its leader epochs."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from mesh.records.spans import UpstreamPartition
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import UpstreamNode
from mesh.wire.client import messages
from mesh.wire.errors import ProtocolError

LATEST: Final = -1
EARLIEST: Final = -2


async def offset_of(
    source: UpstreamPartition, node: UpstreamNode, epoch: int, which: int, read_committed: bool = False
) -> int | None:
    """Returns the start (EARLIEST) or the end (LATEST) of a log; None if the leader cannot say now. Raises
    Unreachable."""
    served = (await node.request_link.versions()).get(messages.LIST_OFFSETS)
    partitions: messages.Partitions = {str(source.topic): [(source.partition, epoch)]}
    version = served.highest if served else 0
    request = messages.list_offsets_request(partitions, which, read_committed, version)
    try:
        found = messages.decode_list_offsets(await node.request_link.request(request))
    except ProtocolError as problem:
        raise Unreachable(str(problem)) from problem
    error, offset = found.get((source.topic, source.partition), (-1, -1))
    return offset if not error and offset >= 0 else None


async def topic_id_of(source: UpstreamPartition, node: UpstreamNode) -> UUID | None:
    """Returns the topic's id from the leader; None if it does not know the topic, or knows no ids (before 2.8). Raises
    Unreachable."""
    served = (await node.request_link.versions()).get(messages.METADATA)
    request = messages.metadata_request([source.topic], served.highest if served else 0)
    try:
        layout = messages.decode_metadata(await node.request_link.request(request))
    except ProtocolError as problem:
        raise Unreachable(str(problem)) from problem
    return next((topic.topic_id for topic in layout.topics if topic.name == source.topic), None)


async def end_of_epoch(source: UpstreamPartition, node: UpstreamNode, current: int, epoch: int) -> tuple[int, int]:
    """Returns an error code, and the offset at which the records up to this epoch end in the log. The offset is -1 if
    the log knows no epoch that late, or the broker does not say. Raises Unreachable."""
    served = (await node.request_link.versions()).get(messages.OFFSET_FOR_LEADER_EPOCH)
    if served is None or not served.lowest <= 2 <= served.highest:
        return 0, -1
    request = messages.epoch_ends_request({str(source.topic): [(source.partition, current, epoch)]})
    try:
        found = messages.decode_epoch_ends(await node.request_link.request(request))
    except ProtocolError as problem:
        raise Unreachable(str(problem)) from problem
    return found.get((source.topic, source.partition), (0, -1))
