"""The membership of a librdkafka consumer in its group, so that other code can commit in its name."""

from __future__ import annotations

import sys
from typing import Final

from mesh.wire.client.commits import GroupMembership

_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = 4
"""Size in bytes of the generation, which is in the machine's byte order."""
_STATIC, _DYNAMIC = b"\0", b"\1"
"""Markers of a static and a dynamic member: whether an instance id follows."""


def membership_of(metadata: bytes) -> GroupMembership | None:
    """Returns the membership in the result of `Consumer.consumer_group_metadata`
    (rd_kafka_consumer_group_metadata_write). None for a consumer without one, and for a librdkafka with another
    format."""
    begin = len(_MAGIC) + _GENERATION
    if not metadata.startswith(_MAGIC) or len(metadata) <= begin:
        return None
    generation = int.from_bytes(metadata[len(_MAGIC) : begin], sys.byteorder, signed=True)
    group, group_ends, rest = metadata[begin:].partition(b"\0")
    member_id, member_ends, rest = rest.partition(b"\0")
    if generation < 0 or not (group_ends and member_id and member_ends):
        return None
    if rest == _DYNAMIC:
        return GroupMembership(group.decode(), generation, member_id.decode(), None)
    instance_id, ends, more = rest[1:].partition(b"\0")
    if rest[:1] != _STATIC or not (instance_id and ends) or more:
        return None
    return GroupMembership(group.decode(), generation, member_id.decode(), instance_id.decode())
