"""Where a log begins and ends, and where its epochs end."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from mesh.records.spans import UpstreamPartition
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Node
from mesh.wire.client import messages
from mesh.wire.errors import ProtocolError

LATEST: Final = -1
EARLIEST: Final = -2


async def offset_of(
    source: UpstreamPartition, node: Node, epoch: int, which: int, read_committed: bool = False
) -> int | None:
    """Where a log begins (EARLIEST) or ends (LATEST); None if the leader does not say now. Raises Unreachable."""
    served = (await node.asking.versions()).get(messages.LIST_OFFSETS)
    partitions: messages.Partitions = {str(source.topic): [(source.partition, epoch)]}
    version = served.highest if served else 0
    request = messages.list_offsets_request(partitions, which, read_committed, version)
    try:
        found = messages.decode_list_offsets(await node.asking.request(request))
    except ProtocolError as problem:
        raise Unreachable(str(problem)) from problem
    error, offset = found.get((source.topic, source.partition), (-1, -1))
    return offset if not error and offset >= 0 else None


async def topic_id_of(source: UpstreamPartition, node: Node) -> UUID | None:
    """The topic's id as the leader knows it; None if the topic is not there, or brokers have none (before 2.8). Raises
    Unreachable."""
    served = (await node.asking.versions()).get(messages.METADATA)
    request = messages.metadata_request([source.topic], served.highest if served else 0)
    try:
        layout = messages.decode_metadata(await node.asking.request(request))
    except ProtocolError as problem:
        raise Unreachable(str(problem)) from problem
    return next((topic.topic_id for topic in layout.topics if topic.name == source.topic), None)


async def end_of_epoch(source: UpstreamPartition, node: Node, current: int, epoch: int) -> tuple[int, int]:
    """Error code, and the offset at which the records of this epoch, or of earlier ones, end in a log; -1 if the log
    knows no epoch that late, or the broker does not tell such things. Raises Unreachable."""
    served = (await node.asking.versions()).get(messages.OFFSET_FOR_LEADER_EPOCH)
    if served is None or not served.lowest <= 2 <= served.highest:
        return 0, -1
    request = messages.epoch_ends_request({str(source.topic): [(source.partition, current, epoch)]})
    try:
        found = messages.decode_epoch_ends(await node.asking.request(request))
    except ProtocolError as problem:
        raise Unreachable(str(problem)) from problem
    return found.get((source.topic, source.partition), (0, -1))
