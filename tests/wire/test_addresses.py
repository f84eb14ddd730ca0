"""Clients get other addresses in each of the answers that contain some, and all other bytes as the broker sent them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema

from mesh.wire.addresses import carries_addresses, with_addresses
from mesh.wire.apis import ApiKey, has_tagged_response_header
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.relayed_apis import RELAYED_APIS
from tests.wire.entities import decode, encode, entities, sample
from tests.wire.entities.addresses import Addresses, told

VERSIONS = [
    (api_key, version)
    for api_key, lowest, highest in (
        (ApiKey.PRODUCE, 10, 13),
        (ApiKey.FETCH, 16, 18),
        (ApiKey.METADATA, 0, 13),
        (ApiKey.FIND_COORDINATOR, 0, 6),
        (ApiKey.DESCRIBE_CLUSTER, 0, 2),
        (ApiKey.SHARE_FETCH, 1, 2),
        (ApiKey.SHARE_ACKNOWLEDGE, 1, 2),
    )
    for version in range(lowest, highest + 1)
]
"""Every version of an answer that carries addresses."""

CORRELATION_ID = b"\x00\x00\x00\x07"
TAIL = b"behind"
each_version = pytest.mark.parametrize(
    ("api_key", "version"), VERSIONS, ids=lambda value: getattr(value, "name", value)
)


def header(api_key: ApiKey, version: int) -> bytes:
    """A header with a tagged field, if its version has room for one."""
    tagged = b"\x01\x05\x02ab" if has_tagged_response_header(api_key, version) else b""
    return CORRELATION_ID + tagged


def body_of(api_key: ApiKey, version: int, told: list[Buffer]) -> bytes:
    """The body behind the header, after a check of the length."""
    frame = b"".join(told)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    start = header(api_key, version)
    assert frame[4:].startswith(start)
    return frame[4 + len(start) :]


def answered(api_key: ApiKey, version: int, body: bytes, addresses: Addresses) -> bytes:
    answer = memoryview(header(api_key, version) + body)
    return body_of(api_key, version, with_addresses(api_key, version, answer, addresses))


def test_what_carries_addresses() -> None:
    every = {(api_key, version) for api_key, versions in RELAYED_APIS.items() for version in versions.all()}
    assert {one for one in every if carries_addresses(*one)} == set(VERSIONS)
    assert not carries_addresses(ApiKey.METADATA, 14)
    assert not carries_addresses(ApiKey.VOTE, 0)


@each_version
def test_every_address_is_another(api_key: ApiKey, version: int) -> None:
    schema: Any = load_response_schema(api_key, version)
    entity, addresses = sample(schema), Addresses()
    body = answered(api_key, version, encode(entity) + TAIL, addresses)
    assert body.endswith(TAIL)
    assert decode(schema, body.removesuffix(TAIL)) == told(entity, addresses)
    assert addresses.asked


@each_version
def test_nodes_that_clients_cannot_reach_are_not_told(api_key: ApiKey, version: int) -> None:
    schema: Any = load_response_schema(api_key, version)
    entity = sample(schema)
    asked = Addresses()
    answered(api_key, version, encode(entity), asked)
    for absent in ({asked.asked[0]}, {asked.asked[-1]}, set(asked.asked)):
        addresses = Addresses(absent)
        assert decode(schema, answered(api_key, version, encode(entity), addresses)) == told(entity, addresses)


@each_version
def test_the_same_addresses_are_the_same_bytes_in_one_span(api_key: ApiKey, version: int) -> None:
    class Same:
        def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
            return host, port

    answer = memoryview(header(api_key, version) + encode(sample(load_response_schema(api_key, version))))
    _, span = with_addresses(api_key, version, answer, Same())
    assert isinstance(span, memoryview) and span.obj is answer.obj and span == answer


@each_version
def test_an_answer_that_ends_before_the_addresses_do_is_an_error(api_key: ApiKey, version: int) -> None:
    answer = header(api_key, version) + encode(sample(load_response_schema(api_key, version)))
    whole = b"".join(with_addresses(api_key, version, memoryview(answer), Addresses()))[4:]
    errors = 0
    for length in range(len(answer)):
        try:
            cut = b"".join(with_addresses(api_key, version, memoryview(answer[:length]), Addresses()))[4:]
        except ProtocolError:
            errors += 1
        else:
            # Bytes behind the addresses are not read.
            assert cut == whole[: len(cut)] and len(whole) - len(cut) == len(answer) - length
    assert errors > len(header(api_key, version))


@settings(max_examples=300)
@given(one=st.sampled_from(VERSIONS), absent=st.sets(st.integers(0, 3)), data=st.data())
def test_any_answer_is_told_as_kio_writes_it(one: tuple[ApiKey, int], absent: set[int], data: st.DataObject) -> None:
    schema: Any = load_response_schema(*one)
    entity, addresses = data.draw(entities(schema)), Addresses(absent, is_by_remainder=True)
    assert decode(schema, answered(*one, encode(entity), addresses)) == told(entity, addresses)


METADATA = (
    CORRELATION_ID + b"\x00"  # tags of the header
    b"\x00\x00\x00\x00"  # throttle time
    b"\x03\x00\x00\x00\x01\x02a\x00\x00\x23\x84\x00\x00\x00\x00\x00\x02\x03bb\x00\x00\x23\x84\x03r1\x00"
)  # fmt: skip


def test_metadata_is_not_read_behind_the_brokers() -> None:
    behind = b"\x02c\xff\xff\xff\xff" + b"\xff" * 10_000
    frame = with_addresses(ApiKey.METADATA, 12, memoryview(METADATA + behind), Addresses({1}))
    assert b"".join(frame) == (
        (len(METADATA + behind) - 12 + 5).to_bytes(4, "big") + METADATA[:9] + b"\x02"
        b"\x00\x00\x00\x02\x08mesh-bb\x00\x00\x23\x85\x03r1\x00" + behind
    )
    assert len(frame[-1]) == len(b"\x03r1\x00" + behind)


def test_no_coordinator_that_clients_cannot_reach() -> None:
    found = b"\x00\x00\x00\x05\x00\x00\xff\xff\x00\x00\x00\x03\x00\x01h\x00\x00\x23\x84"
    frame = b"".join(with_addresses(ApiKey.FIND_COORDINATOR, 2, memoryview(CORRELATION_ID + found), Addresses({3})))
    gone = b"\x00\x00\x00\x05\x00\x0f\xff\xff\xff\xff\xff\xff\x00\x00\xff\xff\xff\xff"
    assert frame == b"\x00\x00\x00\x16" + CORRELATION_ID + gone


@pytest.mark.parametrize("version", [0, 1, 3, 4, 6])
def test_a_coordinator_that_the_broker_does_not_know_is_not_asked_about(version: int) -> None:
    nobody = b"\xff\xff\xff\xff\x00\x00\xff\xff\xff\xff"
    compact = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff"
    body = {
        0: b"\x00\x0f" + nobody,
        1: b"\x00\x00\x00\x00\x00\x0f\xff\xff" + nobody,
        3: b"\x00\x00\x00\x00\x00\x0f\x00" + compact + b"\x00",
    }.get(version, b"\x00\x00\x00\x00\x02\x02g" + compact + b"\x00\x0f\x00\x00\x00")
    addresses = Addresses()
    assert answered(ApiKey.FIND_COORDINATOR, version, body, addresses) == body
    assert not addresses.asked


@pytest.mark.parametrize(("endpoint_type", "is_asked"), [(1, True), (2, False)])
@pytest.mark.parametrize("version", [1, 2])
def test_controllers_are_left_as_they_are(version: int, endpoint_type: int, is_asked: bool) -> None:
    fenced = b"\x00" if version == 2 else b""
    broker = b"\x00\x00\x00\x04\x02h\x00\x00\x23\x84\x00" + fenced + b"\x00"
    body = bytes(6) + b"\x00" + bytes((endpoint_type,)) + b"\x02c\x00\x00\x00\x04\x02" + broker + bytes(5)
    addresses = Addresses({4})
    assert (answered(ApiKey.DESCRIBE_CLUSTER, version, body, addresses) != body) == is_asked
    assert addresses.asked == [4] * is_asked


def test_a_broker_without_a_host_stays() -> None:
    """DescribeCluster lists fenced brokers without an address."""
    broker = b"\x00\x00\x00\x04\x01\xff\xff\xff\xff\x00\x01\x00"
    body = bytes(6) + b"\x00\x01\x02c\x00\x00\x00\x04\x02" + broker + bytes(5)
    assert answered(ApiKey.DESCRIBE_CLUSTER, 2, body, Addresses({4})) == body
