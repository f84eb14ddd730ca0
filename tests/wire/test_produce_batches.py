"""Where records stand in Produce requests that kio has written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.produce_batches import body_of, parts_of
from mesh.wire.relayed_apis import RELAYED_APIS
from tests.wire.entities import encode, entities

VERSIONS = RELAYED_APIS[ApiKey.PRODUCE].all()
FRAME_START = b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x00\x09" + b"\x00\x00\x00\x07"


def framed(version: int, body: bytes, client_id: bytes | None = b"me") -> memoryview:
    named = b"\xff\xff" if client_id is None else len(client_id).to_bytes(2, "big") + client_id
    tags = b"\x01\x09\x01a" if is_flexible(ApiKey.PRODUCE, version) else b""
    return memoryview(bytearray(FRAME_START + named + tags + body))


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, Any]:
    version = draw(st.sampled_from(VERSIONS))
    return version, draw(entities(load_request_schema(ApiKey.PRODUCE, version)))


@given(request=requests(), client_id=st.none() | st.binary(max_size=5))
def test_records_acks_and_transactions_are_found(request: tuple[int, Any], client_id: bytes | None) -> None:
    version, entity = request
    frame = framed(version, encode(entity), client_id)
    parts = parts_of(version, frame, body_of(ApiKey.PRODUCE, version, frame))
    records = [bytes(each.records) for topic in entity.topic_data for each in topic.partition_data if each.records]
    assert [bytes(frame[start:end]) for start, end in parts.records] == records
    assert parts.acks == entity.acks
    assert parts.transactional_id == entity.transactional_id
    assert parts.topics == [each.name for each in entity.topic_data if getattr(each, "name", None) is not None]


@given(request=requests(), part=st.floats(0, 1))
def test_a_request_that_ends_too_early_is_refused(request: tuple[int, Any], part: float) -> None:
    version, entity = request
    body = encode(entity)
    frame = framed(version, body[: int(len(body) * part * 0.999)])
    with pytest.raises(ProtocolError):
        parts_of(version, frame, body_of(ApiKey.PRODUCE, version, frame))
