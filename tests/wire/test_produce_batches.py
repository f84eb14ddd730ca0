"""Where records stand in Produce requests that kio has written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.frames import with_length
from mesh.wire.produce_batches import ProduceParts, body_of, parts_of, without_header_tags
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.spans import MAX_REQUEST_ELEMENTS
from mesh.wire.writer import encode_unsigned_varint
from tests.wire.entities import anatomy, encode, entities

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


@pytest.mark.parametrize("api_key", [ApiKey.PRODUCE, ApiKey.SASL_HANDSHAKE])
@pytest.mark.parametrize("client_id", [None, b"", b"me"])
def test_the_header_loses_its_tagged_fields(api_key: ApiKey, client_id: bytes | None) -> None:
    version = RELAYED_APIS[ApiKey.PRODUCE].highest if api_key is ApiKey.PRODUCE else 1
    tagged = with_length([framed(9 if is_flexible(api_key, version) else 8, b"body", client_id)])
    plain, at = without_header_tags(api_key, version, tagged)
    assert bytes(plain[at:]) == b"body" and len(plain) - 4 == int.from_bytes(plain[:4], "big")
    assert (plain is tagged) == (not is_flexible(api_key, version))
    assert without_header_tags(api_key, version, plain) == (plain, at)
    assert without_header_tags(api_key, version, plain)[0] is plain
    for length in range(12, at):
        with pytest.raises(ProtocolError):
            without_header_tags(api_key, version, plain[:length])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_exact_if_nothing_else_is_in_it(version: int) -> None:
    message = (ApiKey.PRODUCE, version, Direction.REQUEST)
    parts = anatomy.whole(message)

    def found(tail: bytes = b"") -> ProduceParts:
        frame = framed(version, anatomy.encoded(parts) + tail)
        return parts_of(version, frame, body_of(ApiKey.PRODUCE, version, frame))

    exact = found()
    assert exact.is_exact and found(b"x") == exact._replace(is_exact=False)
    for section in anatomy.sections(parts):
        section.fields = [anatomy.Tagged(5, [])]
        assert not found().is_exact and found()[:3] == exact[:3]
        section.fields = []
    name = next(part for part in parts if isinstance(part, anatomy.Plain) and part.data == b"orders")
    name.data = b"\xed\xa0\x80rs\xff"
    assert found().transactional_id == "\ufffdrs\ufffd" and not found().is_exact


def produced(topics: int, partitions: int, tags: int) -> memoryview:
    """A Produce v9 with so many topics, so many partitions of each, and so many tagged fields of each partition."""
    fields = b"".join(encode_unsigned_varint(tag) + b"\0" for tag in range(tags))
    partition = bytes(5) + encode_unsigned_varint(tags) + fields
    topic = b"\2t" + encode_unsigned_varint(partitions + 1) + partition * partitions + b"\0"
    return framed(9, bytes(7) + encode_unsigned_varint(topics + 1) + topic * topics + b"\0")


HALF = MAX_REQUEST_ELEMENTS // 2


@pytest.mark.parametrize(("topics", "partitions", "tags"), [(2 * HALF + 1, 0, 0), (1, 2 * HALF, 0), (2, 1, HALF + 1)])
def test_elements_and_tagged_fields_are_limited(topics: int, partitions: int, tags: int) -> None:
    frame = produced(topics, partitions, tags)
    with pytest.raises(ProtocolError, match="elements in one request"):
        parts_of(9, frame, body_of(ApiKey.PRODUCE, 9, frame))
    assert parts_of(9, *without_header_tags(ApiKey.PRODUCE, 9, produced(HALF, 1, 1))).acks == 0


@given(request=requests(), part=st.floats(0, 1))
def test_a_request_that_ends_too_early_is_refused(request: tuple[int, Any], part: float) -> None:
    version, entity = request
    body = encode(entity)
    frame = framed(version, body[: int(len(body) * part * 0.999)])
    with pytest.raises(ProtocolError):
        parts_of(version, frame, body_of(ApiKey.PRODUCE, version, frame))
