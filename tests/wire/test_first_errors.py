"""The error of an answer, against Kafka's messages as kio has them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from struct import pack

import pytest

from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import FIXED_SIZES, Field
from mesh.wire.entities.layouts import layout
from mesh.wire.first_errors import WITHOUT_ERROR, first_error, path_to_error
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.writer import encode_unsigned_varint

TEXTS = (b"", b"t", b"t" * 200)
TAGS = (b"\0", b"\x01\x05\x02ab")


def way_in(fields: Iterable[Field]) -> list[str] | None:
    """The path to the first error code of a message; None if there is none, or another field is in the way."""
    way: list[str] = []
    for field in fields:
        if field.tag is not None:
            continue
        if field.name in ("error_code", "partition_error_code"):
            return way
        if field.fields:
            inner = way_in(field.fields)
            return None if inner is None else [*way, "[", *inner]
        if field.wire_type in FIXED_SIZES and not field.is_array:
            way.append(str(FIXED_SIZES[field.wire_type]))
        else:
            assert field.wire_type == "string", field
            way.append("s")
    return None


def joined(way: Iterable[str]) -> str:
    """Joins neighbouring numbers into one."""
    found: list[str] = []
    for word in way:
        if found and word.isdigit() and found[-1].isdigit():
            found[-1] = str(int(found[-1]) + int(word))
        else:
            found.append(word)
    return " ".join(found)


@pytest.mark.parametrize("api_key", RELAYED_APIS, ids=lambda each: each.name)
def test_the_way_is_that_of_kafkas_messages(api_key: ApiKey) -> None:
    for version in RELAYED_APIS[api_key].all():
        found = way_in(layout(api_key, version, Direction.RESPONSE))
        if api_key in WITHOUT_ERROR:
            assert found is None, version
            assert path_to_error(api_key, version) is None, version
        else:
            assert found is not None, version
            assert path_to_error(api_key, version) == joined(found), version


def answer(api_key: ApiKey, version: int, code: int, text: bytes = b"text", tags: bytes = b"\0") -> bytes:
    """An answer up to its error, with one element in each array, and more bytes behind it."""
    flexible = is_flexible(api_key, version)
    frame = bytearray(pack(">ii", 0, 7) + (tags if has_tagged_response_header(api_key, version) else b""))
    for word in (path_to_error(api_key, version) or "").split():
        if word == "[":
            frame += b"\x02" if flexible else pack(">i", 1)
        elif word == "s":
            frame += (encode_unsigned_varint(len(text) + 1) if flexible else pack(">h", len(text))) + text
        else:
            frame += bytes(int(word))
    return bytes(frame + pack(">h", code) + bytes(20))


@pytest.mark.parametrize("api_key", RELAYED_APIS, ids=lambda each: each.name)
def test_the_code_is_read_once_it_has_come(api_key: ApiKey) -> None:
    expected = 0 if api_key in WITHOUT_ERROR else 29
    for version, tags, text in product(RELAYED_APIS[api_key].all(), TAGS, TEXTS):
        frame = answer(api_key, version, 29, text, tags)
        assert first_error(api_key, version, memoryview(frame)) == expected, (version, tags, text)
        assert first_error(api_key, version, memoryview(frame[:-20])) == expected, (version, tags, text)
        for length in range(8, len(frame) - 20):
            assert first_error(api_key, version, memoryview(frame[:length])) == 0, (version, tags, text, length)


@pytest.mark.parametrize(("version", "empty"), [(3, pack(">i", 0)), (8, pack(">i", -1)), (9, b"\0\x01"), (13, b"\0\0")])
def test_without_a_part_there_is_no_error(version: int, empty: bytes) -> None:
    frame = pack(">ii", 0, 7) + empty + b"\x01\x02" * 20
    assert first_error(ApiKey.PRODUCE, version, memoryview(frame)) == 0


def test_a_null_text_is_passed_over() -> None:
    classic = pack(">iiiih", 0, 7, 0, 1, -1) + pack(">h", 3)
    assert first_error(ApiKey.CREATE_PARTITIONS, 0, memoryview(classic)) == 3
    flexible = pack(">ii", 0, 7) + b"\0" + bytes(4) + b"\x02\0" + pack(">h", 3)
    assert first_error(ApiKey.CREATE_PARTITIONS, 2, memoryview(flexible)) == 3


def test_a_varint_without_end_is_no_error() -> None:
    assert first_error(ApiKey.PRODUCE, 13, memoryview(pack(">ii", 0, 7) + b"\0" + b"\xff" * 40)) == 0
