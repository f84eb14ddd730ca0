"""Compiled code for fields that no present message has together."""

from __future__ import annotations

import pytest

from mesh.wire.entities import Unchanged
from mesh.wire.entities.compiler import ALL_KINDS, compiled
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.steps import Walk
from mesh.wire.errors import ProtocolError
from tests.wire.entities.renaming import TO

BROKERS = Field(
    "brokers",
    "struct",
    is_array=True,
    fields=(
        Field("topic", "string", EntityKind.TOPIC),
        Field("node_id", "int32", EntityKind.NODE),
        Field("host", "string", EntityKind.HOST),
        Field("port", "int32", EntityKind.PORT),
    ),
)


def test_what_was_renamed_in_a_struct_that_is_left_out_is_left_out() -> None:
    first, second = (b"\x00\x01t" + bytes(3) + node + b"\x00\x01h\x00\x00\x00\x08" for node in (b"\x03", b"\x04"))
    walk = Walk(memoryview(b"\x00\x00\x00\x02" + first + second), 0, TO)
    compiled([BROKERS], is_flexible=False, kinds=ALL_KINDS, is_whole=True)(walk)
    assert b"".join(walk.pieces()) == (b"\x00\x00\x00\x01\x00\x07topic-t\x00\x00\x50\x04\x00\x06mesh-h\x00\x00\x00\x09")


@pytest.mark.parametrize("wire_type", ["string", "bytes"])
@pytest.mark.parametrize("is_flexible", [False, True])
def test_null_is_an_error_where_it_may_not_be(wire_type: str, is_flexible: bool) -> None:
    null = b"\x00\x00" if is_flexible else b"\xff\xff\xff\xff"
    for is_nullable in (False, True):
        field = Field("field", wire_type, EntityKind.NONE, is_nullable=is_nullable)
        step = compiled([field], is_flexible, ALL_KINDS, is_whole=True)
        walk = Walk(memoryview(null), 0, Unchanged())
        if is_nullable:
            step(walk)
        else:
            with pytest.raises(ProtocolError, match="null instead of"):
                step(walk)


def test_a_kind_in_a_type_that_cannot_hold_it_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"topic is of int16 and cannot hold EntityKind\.TOPIC"):
        compiled([Field("topic", "int16", EntityKind.TOPIC)], is_flexible=False, kinds=ALL_KINDS, is_whole=True)
