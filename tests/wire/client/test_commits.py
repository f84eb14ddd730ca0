"""OffsetCommit of a member: our request is read by the mesh's own server side, and kio's answer by our decoder."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v7 import response as schema
from kio.serial import entity_writer

from mesh.wire.apis import ApiKey
from mesh.wire.client.commits import (
    VERSION,
    CommittedOffset,
    GroupMembership,
    decode_offset_commit,
    offset_commit_request,
)
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.decoder import decode_request
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import OffsetCommitRequest
from mesh.wire.reader import Cursor

OFFSETS = {
    ("orders", 0): CommittedOffset(7, 4, "kafka-mesh/1 abc"),
    ("returns", 3): CommittedOffset(1 << 40, -1, ""),
    ("orders", 2): CommittedOffset(0, -1, ""),
}


def body_of(request: ClientRequest) -> bytes:
    return b"".join(map(bytes, request.body))


def test_a_request_as_the_other_side_reads_it() -> None:
    request = offset_commit_request(GroupMembership("größe", 12, "m-1", "mesh-1"), OFFSETS)
    assert (request.api_key, request.api_version, request.is_flexible) == (ApiKey.OFFSET_COMMIT, VERSION, False)
    read = decode_request(ApiKey.OFFSET_COMMIT, VERSION, Cursor(body_of(request)))
    assert isinstance(read, OffsetCommitRequest)
    said = read.group_id, read.generation_id_or_member_epoch, read.member_id, read.group_instance_id
    assert said == ("größe", 12, "m-1", "mesh-1")
    assert {
        (topic.name, each.partition_index): each.committed_offset for topic in read.topics for each in topic.partitions
    } == {place: each.offset for place, each in OFFSETS.items()}


def test_golden_bytes() -> None:
    request = offset_commit_request(GroupMembership("g", 1, "m", None), {("t", 2): CommittedOffset(3, -1, "x")})
    assert body_of(request) == (
        b"\0\1g" b"\0\0\0\1" b"\0\1m" b"\xff\xff" b"\0\0\0\1" b"\0\1t" b"\0\0\0\1"
        b"\0\0\0\2" b"\0\0\0\0\0\0\0\3" b"\xff\xff\xff\xff" b"\0\1x"
    )  # fmt: skip
    static = offset_commit_request(GroupMembership("g", 1, "m", "i"), {})
    assert body_of(static) == b"\0\1g\0\0\0\1\0\1m\0\1i\0\0\0\0"


def test_an_answer() -> None:
    def partition(number: int, error: int) -> schema.OffsetCommitResponsePartition:
        return schema.OffsetCommitResponsePartition(partition_index=number, error_code=ErrorCode(error))  # type: ignore[arg-type]

    answer = schema.OffsetCommitResponse(
        throttle_time=timedelta(0),  # type: ignore[arg-type]
        topics=(
            schema.OffsetCommitResponseTopic(name="orders", partitions=(partition(0, 0), partition(2, 22))),  # type: ignore[arg-type]
            schema.OffsetCommitResponseTopic(name="returns", partitions=(partition(3, 0),)),  # type: ignore[arg-type]
        ),
    )
    buffer = BytesIO()
    entity_writer(schema.OffsetCommitResponse)(buffer, answer)
    request = offset_commit_request(GroupMembership("g", 1, "m", None), OFFSETS)
    data = bytearray(buffer.getvalue())
    found = decode_offset_commit(ClientResponse(request, memoryview(data), 0))
    assert found == {("orders", 0): 0, ("orders", 2): 22, ("returns", 3): 0}
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(ProtocolError):
            decode_offset_commit(ClientResponse(request, memoryview(bytearray(wrong)), 0))
