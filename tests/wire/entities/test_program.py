"""Programs pass every message on as it came, and with other entities in it as kio would write it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities import Direction, Unchanged, program
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.spans import MAX_REQUEST_ELEMENTS
from mesh.wire.trees import read_tree
from tests.wire.entities import anatomy, decode, encode, entities, sample
from tests.wire.entities.messages import (
    BY_SIDE,
    MESSAGES,
    Message,
    by_side,
    named,
    named_side,
    sample_body,
    schema_of,
)
from tests.wire.entities.renaming import TO, renamed

HEADER, TAIL = b"header", b"a tail"
OF_KIO = [message for message in MESSAGES if schema_of(*message) is not None]
NEWEST = [(api_key, versions.highest, side) for api_key, versions in RELAYED_APIS.items() for side in Direction]


def passed(message: Message, frame: bytes, start: int = 0) -> list[Buffer]:
    return program(*message).translate(memoryview(frame), start, Unchanged())


def translated(message: Message, body: bytes) -> bytes:
    frame = b"".join(program(*message).translate(memoryview(HEADER + body + TAIL), len(HEADER), TO))
    assert frame.startswith(HEADER)
    return frame[len(HEADER) :]


@pytest.mark.parametrize("versions", BY_SIDE, ids=named_side)
def test_what_is_not_renamed_is_passed_as_one_span(versions: list[Message]) -> None:
    for message in versions:
        body = sample_body(*message)
        for tail in (b"", TAIL):
            frame = memoryview(HEADER + body + tail)
            (span,) = program(*message).translate(frame, len(HEADER), Unchanged())
            assert isinstance(span, memoryview) and span.obj is frame.obj, message
            assert span == HEADER + body, message


@pytest.mark.parametrize("versions", BY_SIDE, ids=named_side)
def test_a_body_that_ends_early_is_an_error(versions: list[Message]) -> None:
    for message in versions:
        body = sample_body(*message)
        accepted = [length for length in range(len(body)) if _is_passed(message, body[:length])]
        assert not accepted, message


def _is_passed(message: Message, body: bytes) -> bool:
    try:
        passed(message, body)
    except ProtocolError:
        return False
    return True


@pytest.mark.parametrize("versions", by_side(OF_KIO), ids=named_side)
def test_other_entities_are_what_kio_writes(versions: list[Message]) -> None:
    for message in versions:
        schema: Any = schema_of(*message)
        entity = sample(schema)
        assert decode(schema, translated(message, encode(entity))) == renamed(message[0], entity), message


GROUP, MEMBER = b"\x02g", b"\x02m"
SUPPLEMENTED = [
    (
        (ApiKey.API_VERSIONS, 5, Direction.REQUEST),
        b"\x02n\x02v\x02c" + bytes(3) + b"\x01\x00",
        b"\x02n\x02v\x0acluster-c" + b"\x00\x00\x50\x01\x00",
    ),
    (
        (ApiKey.TXN_OFFSET_COMMIT, 6, Direction.REQUEST),
        b"\x02t" + GROUP + bytes(7) + b"\x09" + bytes(6) + MEMBER + b"\x00\x02" + bytes(15) + b"\x01\x01\x00\x00",
        b"\x01\x08group-g" + bytes(7) + b"\x0e" + bytes(6) + MEMBER + b"\x00\x02"
        b"\x00\x00\x00\x10" + bytes(11) + b"\x01\x01\x00\x00",
    ),
    (
        (ApiKey.DELETE_GROUPS, 3, Direction.RESPONSE),
        bytes(4) + b"\x02" + GROUP + b"\x00\x44\x03no\x00\x00",
        bytes(4) + b"\x02" + b"\x08group-g" + b"\x00\x44\x03no\x00\x00",
    ),
    (
        (ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0, Direction.REQUEST),
        # One subtopology with a source node of one topic, and no global stores.
        GROUP + MEMBER + bytes(4) + b"\x02\x02s\x02\x02n\x01\x02\x02a\x00\x01\x01\x00\x00\x01\x00\x00",
        b"\x08group-g" + MEMBER + bytes(4) + b"\x02\x02s\x02\x02n\x01\x02\x08topic-a\x00\x01\x01\x00\x00\x01\x00\x00",
    ),
    ((ApiKey.UNREGISTER_CONTROLLER, 0, Direction.REQUEST), b"\0\0\0\x02\0", b"\0\0\x50\x02\0"),
]


@pytest.mark.parametrize(("message", "body", "other"), SUPPLEMENTED)
def test_other_entities_in_what_kio_lacks(message: Message, body: bytes, other: bytes) -> None:
    assert translated(message, body) == other


def test_a_broker_as_a_resource_is_a_node() -> None:
    alter = (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, Direction.REQUEST)

    def of(*names: bytes) -> bytes:
        entries = b"".join(b"\x04" + bytes((len(name) + 1,)) + name + b"\x01\x00" for name in names)
        return bytes((len(names) + 1,)) + entries + b"\x00\x00"

    assert translated(alter, of(b"1", b"", b"one", b"99999999999")) == of(b"20481", b"", b"one", b"99999999999")
    assert b"".join(passed(alter, of(b"001"))) == of(b"001")


def test_a_longer_name_in_a_tagged_field_changes_its_size() -> None:
    fetch = (ApiKey.FETCH, 12, Direction.REQUEST)
    fields = b"\xff\xff\xff\xff" + bytes(21) + b"\x01\x01\x01"
    assert translated(fetch, fields + b"\x01\x00\x02\x02c") == fields + b"\x01\x00\x0a\x0acluster-c"


@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_size_of_a_known_tagged_field_is_that_of_its_value(size: int) -> None:
    """A broker ignores the size, so it would read other fields behind it."""
    for version, field in ((12, b"\2c"), (17, b"\2c")):
        fields = (b"\xff\xff\xff\xff" if version < 15 else b"") + bytes(21) + b"\x01\x01\x01"
        with pytest.raises(ProtocolError, match=f"a size of {size} bytes at tag 0, whose value takes 2"):
            passed((ApiKey.FETCH, version, Direction.REQUEST), fields + b"\1\0" + bytes([size]) + field + b"!?")


WITH_KNOWN_TAGS = [
    message for message in MESSAGES if any(each.fields for each in anatomy.sections(anatomy.whole(message)))
]
NEWEST_FLEXIBLE = [message for message in NEWEST if is_flexible(*message[:2])]


def is_refused(message: Message, body: bytes, match: str) -> None:
    with pytest.raises(ProtocolError, match=match):
        passed(message, body)
    with pytest.raises(ProtocolError, match=match):
        read_tree(*message, body)


@pytest.mark.parametrize("message", WITH_KNOWN_TAGS, ids=named)
def test_the_size_of_every_known_tagged_field_is_checked(message: Message) -> None:
    parts = anatomy.whole(message)
    for section in anatomy.sections(parts):
        for field in section.fields:
            for more in (-1, 1, 2):
                field.more = more
                is_refused(message, anatomy.encoded(parts) + TAIL, "at tag")
            field.more = 0
    assert b"".join(passed(message, anatomy.encoded(parts))) == anatomy.encoded(parts)


@pytest.mark.parametrize("message", NEWEST_FLEXIBLE, ids=named)
def test_unknown_tagged_fields_are_left_out_everywhere(message: Message) -> None:
    parts = anatomy.whole(message)
    body = anatomy.encoded(parts)
    for section in anatomy.sections(parts):
        section.fields += [anatomy.Tagged(96, []), anatomy.Tagged(300, [anatomy.Plain(b"x" * 200)])]
    longer = anatomy.encoded(parts)
    assert b"".join(passed(message, longer + TAIL)) == body
    assert read_tree(*message, longer + TAIL) == read_tree(*message, body)
    program(*message).translate(memoryview(longer), 0, TO)


@pytest.mark.parametrize("message", NEWEST_FLEXIBLE, ids=named)
def test_tags_ascend_everywhere(message: Message) -> None:
    parts = anatomy.whole(message)
    for section in anatomy.sections(parts):
        known = section.fields[:]
        for fields in ([*known, anatomy.Tagged(97, []), anatomy.Tagged(96, [])], [*known, *known[-1:]], known[::-1]):
            section.fields = fields
            if fields != known:
                is_refused(message, anatomy.encoded(parts), "tags must ascend")
        section.fields = known


def test_lengths_with_more_bytes_than_they_need_stay() -> None:
    metadata = (ApiKey.METADATA, 9, Direction.REQUEST)
    body = b"\x82\x00\x82\x80\x00t\x00\x00\x00\x00\x00"
    assert b"".join(passed(metadata, body)) == body
    assert translated(metadata, body) == b"\x82\x00\x08topic-t\x00\x00\x00\x00\x00"


def test_bytes_that_are_no_text_become_the_characters_that_were_read() -> None:
    heartbeat = (ApiKey.HEARTBEAT, 0, Direction.REQUEST)
    rest = bytes(4) + b"\x00\x00"
    assert b"".join(passed(heartbeat, b"\x00\x02\xff\xff" + rest)) == b"\x00\x06" + b"\xef\xbf\xbd" * 2 + rest


def test_a_count_above_what_is_left_is_an_error_at_once() -> None:
    for count in (b"\x7f\xff\xff\xff", b"\x00\x00\x00\x05"):
        with pytest.raises(ProtocolError, match="announced at 4, 0 left"):
            passed((ApiKey.METADATA, 1, Direction.REQUEST), count)


def test_elements_are_limited_in_requests_and_not_in_answers() -> None:
    for count in (MAX_REQUEST_ELEMENTS, MAX_REQUEST_ELEMENTS + 1):
        topics = count.to_bytes(4, "big") + b"\0\1t" * count
        if count > MAX_REQUEST_ELEMENTS:
            with pytest.raises(ProtocolError, match="elements in one request"):
                passed((ApiKey.METADATA, 1, Direction.REQUEST), topics)
        else:
            assert passed((ApiKey.METADATA, 1, Direction.REQUEST), topics)
        topics = count.to_bytes(4, "big") + b"\0\1t\0\0" * count
        assert passed((ApiKey.DELETE_TOPICS, 1, Direction.RESPONSE), bytes(4) + topics)


def test_an_entity_that_is_too_long_for_kafka_is_refused() -> None:
    class Long(Unchanged):
        def group(self, group_id: str) -> str:
            return group_id * 40_000

    for version in (0, 4):
        heartbeat = program(ApiKey.HEARTBEAT, version, Direction.REQUEST)
        body = sample_body(ApiKey.HEARTBEAT, version, Direction.REQUEST)
        with pytest.raises(ValueError, match="Kafka has room for 32767"):
            heartbeat.translate(memoryview(body), 0, Long())


@pytest.mark.parametrize(("api_key", "version"), [(ApiKey.VOTE, 0), (ApiKey.FETCH, 19), (ApiKey.PRODUCE, 2)])
def test_what_is_not_relayed_has_no_program(api_key: ApiKey, version: int) -> None:
    with pytest.raises(ValueError, match="is not relayed"):
        program(api_key, version, Direction.REQUEST)


def test_programs_are_made_once() -> None:
    assert program(ApiKey.FETCH, 13, Direction.REQUEST) is program(ApiKey.FETCH, 13, Direction.REQUEST)


@settings(max_examples=400)
@given(message=st.sampled_from(OF_KIO), data=st.data())
def test_any_other_entities_are_what_kio_writes(message: Message, data: st.DataObject) -> None:
    schema: Any = schema_of(*message)
    entity = data.draw(entities(schema))
    body = encode(entity)
    assert b"".join(passed(message, body)) == body
    assert decode(schema, translated(message, body)) == renamed(message[0], entity)


@pytest.mark.parametrize("message", NEWEST, ids=named)
def test_random_bytes_are_an_error_or_pass(message: Message) -> None:
    chance = random.Random(str(message))
    body = bytearray(sample_body(*message))
    for _ in range(60):
        if chance.random() < 0.5:
            frame = chance.randbytes(chance.randrange(40))
        else:
            broken = body[:]
            for _ in range(chance.randrange(1, 4)):
                broken[chance.randrange(len(broken))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            frame = bytes(broken)
        try:
            # The pieces are what a reader finds in the frame, and it finds the same in them.
            once = b"".join(passed(message, frame))
            assert b"".join(passed(message, once)) == once
            assert read_tree(*message, once) == read_tree(*message, frame)
            program(*message).translate(memoryview(frame), 0, TO)
        except ProtocolError:
            continue
