"""Mistakes in a message class are found when the tables are built."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pytest
from kio.index import load_request_schema

from mesh.wire.apis import ApiKey
from mesh.wire.schema import FieldType, Pairing, field_types, required_fields, schema_fields

HEARTBEAT_V0 = load_request_schema(ApiKey.HEARTBEAT, 0)
HEARTBEAT_V4 = load_request_schema(ApiKey.HEARTBEAT, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    group_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Misspelt:
    group_id: str
    grop_instance_id: str | None = None


def test_a_field_of_some_version_is_enough() -> None:
    pairing = Pairing()
    pairing.pair(HEARTBEAT_V0, Message)
    pairing.pair(HEARTBEAT_V4, Message)
    pairing.check()


def test_a_field_of_no_version_is_an_error() -> None:
    pairing = Pairing()
    pairing.pair(HEARTBEAT_V0, Misspelt)
    pairing.pair(HEARTBEAT_V4, Misspelt)
    with pytest.raises(TypeError, match=r"Misspelt has fields that are in no version: \['grop_instance_id'\]"):
        pairing.check()


def test_fields_that_we_lack_are_paired_with_none() -> None:
    pairs = {field.name: ours for field, ours in Pairing().pair(HEARTBEAT_V0, Message)}
    assert pairs == {"group_id": FieldType(str, False, False), "generation_id": None, "member_id": None}


def test_durations_have_their_unit_in_our_names() -> None:
    (duration,) = (
        field
        for field in schema_fields(load_request_schema(ApiKey.JOIN_GROUP, 0))
        if field.kafka_type == "timedelta_i32"
    )
    assert (duration.name, duration.message_name) == ("session_timeout", "session_timeout_ms")


def test_types_of_fields() -> None:
    @dataclass
    class Fields:
        plain: int
        nullable: UUID | None
        array: tuple[int, ...]
        nullable_array: tuple[str, ...] | None = None

    assert field_types(Fields) == {
        "plain": FieldType(int, False, False),
        "nullable": FieldType(UUID, False, True),
        "array": FieldType(int, True, False),
        "nullable_array": FieldType(str, True, True),
    }
    assert required_fields(Fields) == {"plain", "nullable", "array"}
