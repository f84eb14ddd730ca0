"""Trees hold what kio reads and are written as kio writes it; what kio lacks, as the table of fields says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction, Unchanged, program
from mesh.wire.errors import ProtocolError
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.spans import MAX_REQUEST_ELEMENTS
from mesh.wire.trees import read_request, read_tree, read_views, write_pieces, write_tree
from tests.integration.jars import missing_programs
from tests.wire.entities import decode, encode, entities, sample
from tests.wire.entities.kafka_messages import definitions
from tests.wire.entities.messages import BY_SIDE, MESSAGES, Message, by_side, named, named_side, sample_body, schema_of

OF_KIO = [message for message in MESSAGES if schema_of(*message) is not None]
OF_ONE_SIDE = by_side(OF_KIO)
SOMETIMES = settings(max_examples=16, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def tree_of(entity: Any) -> Any:
    """The expected tree of one of kio's entities."""
    match entity:
        case None | bool() | bytes() | UUID():
            return entity
        case IntEnum():
            return int(entity)
        case tuple():
            return [tree_of(each) for each in entity]
        case timedelta():
            return round(entity.total_seconds() * 1000)
        case datetime():
            return round(entity.timestamp() * 1000)
        case _ if is_dataclass(entity):
            return {_name(field): _member(field, getattr(entity, field.name)) for field in fields(entity)}
        case _:
            return entity


def _name(field: Any) -> str:
    is_time = (field.metadata.get("kafka_type") or "").startswith(("timedelta", "datetime"))
    return f"{field.name}_ms" if is_time else str(field.name)


def _member(field: Any, value: Any) -> Any:
    match field.metadata.get("kafka_type"), value:
        case "uuid", None:
            return UUID(int=0)
        case "datetime_i64", None:
            return -1
        case _:
            return tree_of(value)


@pytest.mark.parametrize("versions", OF_ONE_SIDE, ids=named_side)
def test_a_tree_is_what_kio_reads(versions: list[Message]) -> None:
    for message in versions:
        entity = sample(schema_of(*message) or object)
        assert read_tree(*message, encode(entity)) == tree_of(entity), message


@pytest.mark.parametrize("versions", BY_SIDE, ids=named_side)
def test_what_was_read_is_written_as_it_came(versions: list[Message]) -> None:
    for message in versions:
        body = sample_body(*message)
        tree = read_tree(*message, memoryview(body))
        written = write_tree(*message, tree)
        # Where kio lacks the version, true is any non-zero number in the sample.
        assert len(written) == len(body), message
        assert read_tree(*message, written) == tree, message


@pytest.mark.parametrize("versions", OF_ONE_SIDE, ids=named_side)
@given(data=st.data())
@SOMETIMES
def test_random_messages_are_read_and_written_as_by_kio(versions: list[Message], data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(versions))
    schema: Any = schema_of(*message)
    entity = data.draw(entities(schema))
    body = encode(entity)
    tree = read_tree(*message, body)
    assert tree == tree_of(decode(schema, body))
    assert write_tree(*message, tree) == body


@pytest.mark.parametrize("versions", BY_SIDE, ids=named_side)
def test_a_body_that_ends_early_is_an_error(versions: list[Message]) -> None:
    for message in versions:
        body = sample_body(*message)
        accepted = [length for length in range(len(body)) if _is_read(message, body[:length])]
        assert not accepted, message


def _is_read(message: Message, body: bytes) -> bool:
    try:
        read_tree(*message, body)
    except ProtocolError:
        return False
    return True


@pytest.mark.parametrize("versions", BY_SIDE, ids=named_side)
def test_what_a_tree_lacks_has_its_default_and_unknown_keys_are_left_out(versions: list[Message]) -> None:
    for message in versions:
        default = read_tree(*message, write_tree(*message, {}))
        written = write_tree(*message, {**default, "from_another_version": 7})
        assert written == write_tree(*message, {}), message


def _plain(tree: Any) -> Any:
    """The tree with bytes in place of views."""
    match tree:
        case dict():
            return {name: _plain(value) for name, value in tree.items()}
        case list():
            return [_plain(each) for each in tree]
        case memoryview():
            return bytes(tree)
        case _:
            return tree


@pytest.mark.parametrize("versions", BY_SIDE, ids=named_side)
def test_views_and_pieces_are_what_trees_and_bodies_are(versions: list[Message]) -> None:
    for message in versions:
        body = sample_body(*message)
        tree = read_views(*message, memoryview(bytearray(body)))
        assert _plain(tree) == read_tree(*message, body), message
        assert b"".join(write_pieces(*message, tree)) == write_tree(*message, tree), message


PARTITION: dict[str, Any] = {"partition_index": 1, "records": b"records of the first"}


def test_records_pass_without_a_copy() -> None:
    """They are parts of the received frame, and are written as they are."""
    fetch = (ApiKey.FETCH, 12, Direction.RESPONSE)
    partitions = [PARTITION, {"partition_index": 2}, PARTITION | {"records": b"and of the third"}]
    frame = bytearray(write_tree(*fetch, {"responses": [{"topic": "t", "partitions": partitions}]}))
    (topic,) = read_views(*fetch, memoryview(frame))["responses"]
    first, second, third = (each["records"] for each in topic["partitions"])
    assert (first.obj, second, third.obj) == (frame, b"", frame)
    pieces = write_pieces(*fetch, {"responses": [topic]})
    assert [each for each in pieces if each is first or each is third] == [first, third]
    assert b"".join(pieces) == frame


def test_records_may_be_written_in_parts() -> None:
    fetch, whole = (ApiKey.FETCH, 11, Direction.RESPONSE), b"one and the other"
    tree, in_parts = (
        {"responses": [{"topic": "t", "partitions": [PARTITION | {"records": records}]}]}
        for records in (whole, (b"one ", memoryview(b"and the other")))
    )
    assert write_tree(*fetch, in_parts) == b"".join(write_pieces(*fetch, in_parts)) == write_tree(*fetch, tree)


@pytest.mark.parametrize("version", [8, 9])
def test_records_that_are_null_stay_so(version: int) -> None:
    produce = (ApiKey.PRODUCE, version, Direction.REQUEST)
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": None}]}]
    body = write_tree(*produce, {"topic_data": topics})
    tree = read_views(*produce, memoryview(body))
    assert tree["topic_data"][0]["partition_data"][0]["records"] is None
    assert b"".join(write_pieces(*produce, tree)) == body


def test_a_body_in_views_that_ends_early_is_an_error() -> None:
    for message in ((ApiKey.FETCH, 16, Direction.RESPONSE), (ApiKey.PRODUCE, 9, Direction.REQUEST)):
        body = memoryview(sample_body(*message))
        for length in range(len(body)):
            with pytest.raises(ProtocolError):
                read_views(*message, body[:length])


GOLDEN: list[tuple[Message, dict[str, Any], bytes]] = [
    (
        (ApiKey.OFFSET_COMMIT, 8, Direction.RESPONSE),
        {"topics": [{"name": "t", "partitions": [{"partition_index": 1, "error_code": 29}]}]},
        b"\0\0\0\0\x02\x02t\x02\0\0\0\x01\0\x1d\0\0\0",
    ),
    (
        (ApiKey.DELETE_GROUPS, 3, Direction.RESPONSE),
        {"throttle_time_ms": 5, "results": [{"group_id": "g", "error_code": 68, "error_message": None}]},
        b"\0\0\0\x05\x02\x02g\0\x44\0\0\0",
    ),
    (
        (ApiKey.API_VERSIONS, 5, Direction.REQUEST),
        {"client_software_name": "n", "client_software_version": "v"},
        b"\x02n\x02v\0\xff\xff\xff\xff\0",
    ),
    (
        (ApiKey.FETCH, 12, Direction.REQUEST),
        {"max_wait_ms": 500, "session_epoch": 7, "cluster_id": "c"},
        b"\xff\xff\xff\xff\0\0\x01\xf4\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\0\0\0\x07\x01\x01\x01\x01\0\x02\x02c",
    ),
    (
        (ApiKey.METADATA, 0, Direction.RESPONSE),
        {"topics": [{"error_code": 0, "name": "t", "partitions": None}]},
        b"\0\0\0\0\0\0\0\x01\0\0\0\x01t\0\0\0\0",
    ),
]


@pytest.mark.parametrize(("message", "tree", "body"), GOLDEN, ids=[named(message) for message, _, _ in GOLDEN])
def test_golden_bytes(message: Message, tree: dict[str, Any], body: bytes) -> None:
    assert write_tree(*message, tree) == body
    assert write_tree(*message, read_tree(*message, body)) == body


def test_unknown_tagged_fields_are_dropped() -> None:
    heartbeat = (ApiKey.HEARTBEAT, 4, Direction.RESPONSE)
    assert read_tree(*heartbeat, b"\0\0\0\x01\0\x1b\x01\x63\x02no") == {"throttle_time_ms": 1, "error_code": 27}


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (b"\2g\0\0\0\7\2m\0\0", None),
        (b"\2g\0\0\0\7\2m\0\0tail", b"\2g\0\0\0\7\2m\0\0"),
        (b"\2g\0\0\0\7\2m\0\1\5\1x", b"\2g\0\0\0\7\2m\0\0"),
        (b"\2\xff\0\0\0\7\2m\0\0", b"\4\xef\xbf\xbd\0\0\0\7\2m\0\0"),
        (b"\x82\0g\0\0\0\7\2m\0\0", None),
    ],
)
def test_a_request_that_passes_has_nothing_but_its_tree(body: bytes, written: bytes | None) -> None:
    frame = memoryview(bytearray((6 + len(body)).to_bytes(4, "big") + b"header" + body))
    tree, passed = read_request(ApiKey.HEARTBEAT, 4, frame, 10)
    assert tree == read_tree(ApiKey.HEARTBEAT, 4, Direction.REQUEST, body)
    if written is None:
        assert passed is frame
    else:
        assert passed == (6 + len(written)).to_bytes(4, "big") + b"header" + written


def test_a_text_that_becomes_too_long_is_refused() -> None:
    body = (20_000).to_bytes(2, "big") + b"\xff" * 20_000 + bytes(4) + b"\0\0"
    with pytest.raises(ProtocolError, match="Kafka has room for"):
        read_request(ApiKey.HEARTBEAT, 0, memoryview(body), 0)
    with pytest.raises(ProtocolError, match="Kafka has room for"):
        program(ApiKey.HEARTBEAT, 0, Direction.REQUEST).translate(memoryview(body), 0, Unchanged())


def test_a_count_above_what_is_left_is_an_error_at_once() -> None:
    for count in (b"\x7f\xff\xff\xff", b"\0\0\0\x05"):
        with pytest.raises(ProtocolError, match="announced at 4, 0 left"):
            read_tree(ApiKey.METADATA, 1, Direction.REQUEST, count)


def test_elements_are_counted_over_the_whole_request_also_in_tagged_fields() -> None:
    topics = b"\0\x01t" * (MAX_REQUEST_ELEMENTS + 1)
    with pytest.raises(ProtocolError) as error:
        read_tree(ApiKey.METADATA, 1, Direction.REQUEST, (MAX_REQUEST_ELEMENTS + 1).to_bytes(4, "big") + topics)
    assert error.value.reason == "too_many_elements"


def test_bytes_behind_a_body_are_not_looked_at() -> None:
    """librdkafka's broker for tests answers some requests with an extra byte, and its clients accept these answers."""
    assert read_tree(ApiKey.METADATA, 1, Direction.REQUEST, b"\xff\xff\xff\xffmore") == {"topics": None}
    assert read_tree(ApiKey.HEARTBEAT, 0, Direction.RESPONSE, b"\0\0more") == {"error_code": 0}


@pytest.mark.parametrize("tree", [{"error_code": 1 << 15}, {"error_message": "x" * 40_000}])
def test_a_value_without_room_is_an_error(tree: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        write_tree(ApiKey.SHARE_GROUP_HEARTBEAT, 1, Direction.RESPONSE, tree)


def test_what_is_not_relayed_is_an_error() -> None:
    for api_key, version in ((ApiKey.VOTE, 0), (ApiKey.FETCH, 3)):
        with pytest.raises(ValueError, match="is not relayed"):
            read_tree(api_key, version, Direction.REQUEST, b"")


@pytest.mark.smoke
@pytest.mark.kafka
def test_names_and_defaults_are_those_of_kafka() -> None:
    if missing := missing_programs():
        pytest.skip(f"Kafka's classes need Java 17 and Maven; not found: {', '.join(missing)}")
    for api_key, version, side in MESSAGES:
        content = definitions()[api_key, side].content
        structs = {each["name"]: each["fields"] for each in content.get("commonStructs", ())}
        expected = _defaults(content["fields"], structs, version)
        expected = {_OLDER_NAMES.get((api_key, name), name): value for name, value in expected.items()}
        assert read_tree(api_key, version, side, write_tree(api_key, version, side, {})) == expected, (api_key, version)


_OLDER_NAMES = {
    (ApiKey.TXN_OFFSET_COMMIT, "generation_id_or_member_epoch"): "generation_id",
    (ApiKey.STREAMS_GROUP_HEARTBEAT, "acceptable_recovery_lag_legacy"): "acceptable_recovery_lag",
}
"""Fields that Kafka has renamed since kio's definitions."""


def _defaults(of: Any, structs: Mapping[str, Any], version: int) -> dict[str, Any]:
    return {
        _snake(field["name"]): _default(field, structs, version)
        for field in of
        if _includes(field["versions"], version)
    }


def _default(field: Mapping[str, Any], structs: Mapping[str, Any], version: int) -> Any:
    inner, said = field.get("fields") or structs.get(field["type"]), field.get("default")
    if said == "null":
        return None if _includes(field["nullableVersions"], version) else _EMPTY.get(field["type"], [])
    if field["type"].startswith("[]"):
        return []
    if inner:
        return _defaults(inner, structs, version)
    match field["type"], said:
        case kafka_type, None:
            return _EMPTY[kafka_type]
        case "bool", text:
            return text in ("true", True)
        case "string", text:
            return text
        case _, number:
            return int(str(number), 0)


_EMPTY = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "int64"), 0),
    "float64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": UUID(int=0),
}


def _snake(name: str) -> str:
    """Names as Kafka's own generator makes them: `enable2Pc` becomes `enable2_pc`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _includes(versions: str, version: int) -> bool:
    if versions == "none":
        return False
    low, _, high = versions.partition("-")
    return int(low.rstrip("+")) <= version <= (int(high) if high else version if low.endswith("+") else int(low))


def test_every_api_is_there() -> None:
    assert {message[0] for message in MESSAGES} == set(RELAYED_APIS)
