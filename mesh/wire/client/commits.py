"""OffsetCommit of a member of a classic group, encoded by hand. No IO.

It uses version 7 only: the first with static members (KIP-345, Kafka 2.3), and the last without tagged fields. Newer
brokers support it too.

Every length in a response is checked against the received bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.groups import TopicPartition
from mesh.wire.client.messages import cursor_of
from mesh.wire.reader import INT16, INT32

OFFSET_COMMIT: Final = 8
VERSION: Final = 7

_PLACE: Final = Struct(">iqi")
"""partition_index, committed_offset, committed_leader_epoch."""


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """The membership of a member in one generation of a group. instance_id: that of a static member."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None


class CommittedOffset(NamedTuple):
    """The committed offset of one partition. leader_epoch: -1 if it is unknown."""

    offset: int
    leader_epoch: int
    metadata: str


def offset_commit_request(
    membership: GroupMembership, offsets: Mapping[TopicPartition, CommittedOffset]
) -> ClientRequest:
    instance_id = membership.instance_id
    body = bytearray(_string(membership.group))
    body += INT32.pack(membership.generation) + _string(membership.member_id)
    body += INT16.pack(-1) if instance_id is None else _string(instance_id)
    topics: dict[str, list[tuple[int, CommittedOffset]]] = {}
    for (topic, number), each in offsets.items():
        topics.setdefault(topic, []).append((number, each))
    body += INT32.pack(len(topics))
    for topic, partitions in topics.items():
        body += _string(topic) + INT32.pack(len(partitions))
        for number, each in partitions:
            body += _PLACE.pack(number, each.offset, each.leader_epoch) + _string(each.metadata)
    return ClientRequest(OFFSET_COMMIT, VERSION, False, (body,))


def decode_offset_commit(response: ClientResponse) -> dict[TopicPartition, int]:
    """Returns the error code of each partition. Raises ProtocolError."""
    cursor = cursor_of(response)
    cursor.int32()  # throttle time
    errors: dict[TopicPartition, int] = {}
    for _ in range(max(cursor.count(6), 0)):
        topic = cursor.string()
        for _ in range(max(cursor.count(6), 0)):
            number = cursor.int32()
            errors[topic, number] = cursor.int16()
    cursor.finish()
    return errors


def _string(text: str) -> bytes:
    encoded = text.encode()
    return INT16.pack(len(encoded)) + encoded
