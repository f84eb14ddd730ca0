"""ApiVersions of a broker, reduced to the APIs that the mesh serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema

from mesh.wire.api_versions_filter import _Answer, limited
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.transaction_levels import SECOND_PROTOCOL
from tests.wire.entities import anatomy, decode, encode, entities, sample

CORRELATION_ID = b"\x00\x00\x00\x07"
SERVED = {ApiKey.PRODUCE: (0, 13), ApiKey.FETCH: (4, 17), ApiKey.METADATA: (9, 12), ApiKey.API_VERSIONS: (0, 5)}
every_version = pytest.mark.parametrize("version", range(6))


def versions_of(version: int, answer: memoryview) -> Mapping[int, tuple[int, int]]:
    """The lowest and the highest version of every API that an answer lists."""
    return {entry.api_key: (entry.lowest, entry.highest) for entry in _Answer(version, answer).entries()}


def schema_of(version: int) -> Any:
    """v5 has the response of v4."""
    return load_response_schema(ApiKey.API_VERSIONS, min(version, 4))


def entry(api_key: int, lowest: int, highest: int) -> bytes:
    return b"".join(number.to_bytes(2, "big") for number in (api_key, lowest, highest))


OLD = b"\x00\x00" + b"\x00\x00\x00\x05"
OLD_ENTRIES = (entry(0, 0, 13), entry(1, 4, 18), entry(3, 0, 8), entry(83, 0, 0), entry(18, 0, 4))
NEW_TAGS = b"\x01\x01\x08" + bytes(7) + b"\x2a"
"""The epoch of the finalized features."""


def test_what_is_served_of_v0() -> None:
    answer = CORRELATION_ID + OLD + b"".join(OLD_ENTRIES) + b"tail"
    assert b"".join(limited(0, memoryview(answer), SERVED)) == (
        b"\x00\x00\x00\x20" + CORRELATION_ID + b"\x00\x00\x00\x00\x00\x03"
        + entry(0, 0, 13) + entry(1, 4, 17) + entry(18, 0, 4) + b"tail"
    )  # fmt: skip
    assert versions_of(0, memoryview(answer)) == {0: (0, 13), 1: (4, 18), 3: (0, 8), 83: (0, 0), 18: (0, 4)}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_what_is_served_of_flexible_versions(version: int) -> None:
    entries = [entry(0, 0, 13) + b"\x01\x07\x01x", entry(1, 4, 18) + b"\x00", entry(74, 0, 1) + b"\x00"]
    behind = b"\x00\x00\x00\x05" + NEW_TAGS
    answer = CORRELATION_ID + b"\x00\x00\x04" + b"".join(entries) + behind
    expected = CORRELATION_ID + b"\x00\x00\x03" + entries[0] + entry(1, 4, 17) + b"\x00" + behind
    frame = b"".join(limited(version, memoryview(answer), SERVED))
    assert frame == len(expected).to_bytes(4, "big") + expected


@every_version
def test_a_version_that_the_broker_does_not_know_is_answered_in_v0(version: int) -> None:
    answer = CORRELATION_ID + b"\x00\x23\x00\x00\x00\x02" + entry(18, 0, 7) + entry(83, 0, 0)
    expected = CORRELATION_ID + b"\x00\x23\x00\x00\x00\x01" + entry(18, 0, 5)
    assert b"".join(limited(version, memoryview(answer), SERVED)) == b"\x00\x00\x00\x10" + expected
    assert versions_of(version, memoryview(answer)) == {18: (0, 7), 83: (0, 0)}


@every_version
def test_what_is_served_as_it_is_stays_in_one_span(version: int) -> None:
    answer = memoryview(CORRELATION_ID + encode(sample(schema_of(version))))
    served: Any = {key: (-100, 100) for key in versions_of(version, answer)}
    _, span = limited(version, answer, served)
    assert isinstance(span, memoryview) and span.obj is answer.obj and span == answer


@pytest.mark.parametrize("version", [3, 4])
def test_the_sizes_and_the_order_of_tags_are_checked(version: int) -> None:
    """Where the features of transactions are looked for."""
    old: Any = {**SERVED, **{key: (0, 0) for key in SECOND_PROTOCOL}}
    parts = anatomy.whole((ApiKey.API_VERSIONS, version, Direction.RESPONSE))
    limited(version, memoryview(CORRELATION_ID + anatomy.encoded(parts)), old)
    section = parts[-1]
    assert isinstance(section, anatomy.Tags) and len(section.fields) == 4
    for field in section.fields:
        for more in (-1, 1):
            field.more = more
            with pytest.raises(ProtocolError, match="at tag"):
                limited(version, memoryview(CORRELATION_ID + anatomy.encoded(parts) + bytes(9)), old)
        field.more = 0
    section.fields.reverse()
    with pytest.raises(ProtocolError, match="tags must ascend"):
        limited(version, memoryview(CORRELATION_ID + anatomy.encoded(parts)), old)


@every_version
def test_an_answer_that_ends_in_its_list_is_an_error(version: int) -> None:
    flexible = version >= 3
    answer = (
        CORRELATION_ID + (b"\x00\x00\x02" if flexible else OLD[:-1] + b"\x01") + entry(0, 0, 13) + b"\x00" * flexible
    )
    limited(version, memoryview(answer), SERVED)
    for length in range(len(answer)):
        with pytest.raises(ProtocolError):
            limited(version, memoryview(answer[:length]), SERVED)
        with pytest.raises(ProtocolError):
            versions_of(version, memoryview(answer[:length]))


@every_version
@given(frame=st.binary(max_size=60))
def test_random_bytes_are_an_error_or_pass(version: int, frame: bytes) -> None:
    try:
        limited(version, memoryview(frame), SERVED)
    except ProtocolError:
        return
    versions_of(version, memoryview(frame))


@every_version
@given(data=st.data())
def test_any_answer_is_narrowed_as_kio_writes_it(version: int, data: st.DataObject) -> None:
    schema = schema_of(version)
    entity = data.draw(entities(schema).filter(lambda entity: entity.error_code.value != 35))
    ranges = st.tuples(st.integers(-5, 5), st.integers(-5, 5))
    served: Any = {one.api_key: data.draw(ranges) for one in entity.api_keys if data.draw(st.booleans())}
    frame = b"".join(limited(version, memoryview(CORRELATION_ID + encode(entity)), served))
    told = decode(schema, frame[8:])
    both = [
        (one.api_key, max(one.min_version, low), min(one.max_version, high))
        for one in entity.api_keys
        for low, high in [served.get(one.api_key, (1, 0))]
        if one.api_key in served
    ]
    listed = [(one.api_key, one.min_version, one.max_version) for one in told.api_keys]
    assert listed == [one for one in both if one[1] <= one[2]]
    assert [field for field in vars_of(told) if field[0] != "api_keys"] == [
        field for field in vars_of(entity) if field[0] != "api_keys"
    ]


def vars_of(entity: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(entity, name)) for name in entity.__dataclass_fields__]
