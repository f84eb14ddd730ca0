"""Producer ids in records: only the id changes, and the batch stays the same otherwise."""

from __future__ import annotations

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import RecordBatch, is_intact, seal
from mesh.records.decode import decode_records
from mesh.records.encode import encode_batch
from mesh.records.producer_batches import with_producer_ids
from tests.records.golden import GZIP
from tests.records.reading import parse_batch
from tests.records.strategies import batches

PRODUCER = Struct(">qhi")
PRODUCER_AT = 43
ATTRIBUTES_AT = 21
TRANSACTIONAL = 0x10


def parsed(data: bytes) -> RecordBatch:
    batch = parse_batch(data, 0, len(data))
    assert batch is not None
    return batch


def produced(batch: RecordBatch, producer_id: int, attributes: int = 0) -> bytearray:
    """The bytes of a batch, as an idempotent producer sends it."""
    data = bytearray(batch.data)
    PRODUCER.pack_into(data, PRODUCER_AT, producer_id, 3, 70)
    data[ATTRIBUTES_AT + 1] |= attributes
    seal(data)
    return data


def producer_of(data: bytes | bytearray | memoryview) -> tuple[int, int, int]:
    id, epoch, sequence = PRODUCER.unpack_from(data, PRODUCER_AT)
    return id, epoch, sequence


def small() -> RecordBatch:
    return encode_batch(0, [(0, 0, b"key", b"value", None)])


@given(batches(), st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 63) - 1))
def test_only_the_id_is_another(batch: RecordBatch, old: int, new: int) -> None:
    data = produced(batch, old)
    before = parsed(bytes(data))
    with_producer_ids(memoryview(data), {old: new}.get)
    after = parsed(bytes(data))
    assert producer_of(data) == (new, 3, 70)
    assert is_intact(after)
    assert decode_records(after) == decode_records(before)
    with_producer_ids(data, {new: old}.get)
    assert bytes(data) == bytes(before.data)


def test_a_compressed_batch_is_not_opened() -> None:
    data = produced(parsed(GZIP), 5)
    with_producer_ids(data, lambda id: id + 1)
    assert producer_of(data)[0] == 6
    assert is_intact(parsed(bytes(data)))


@given(batches(), st.data())
def test_a_corrupt_batch_stays_corrupt(batch: RecordBatch, data: st.DataObject) -> None:
    damaged = produced(batch, 5)
    at = data.draw(st.integers(PRODUCER_AT + 8, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    with_producer_ids(damaged, lambda _: 1 << 62)
    assert producer_of(damaged)[0] == 1 << 62
    assert not is_intact(RecordBatch(damaged, batch.base, batch.first, batch.last, batch.record_count))


def test_each_of_several_batches() -> None:
    data = produced(small(), 1) + produced(small(), 2) + produced(small(), -1)
    expected = produced(small(), 11) + produced(small(), 2) + produced(small(), -1)
    first = bytearray(data)
    with_producer_ids(data, {1: 11}.get)
    assert data == expected
    with_producer_ids(first, lambda id: id + 10, most_batches=1)
    assert first == expected


@pytest.mark.parametrize(
    "data",
    [
        produced(small(), -1),
        produced(small(), 5, TRANSACTIONAL),
        produced(small(), 5)[:-1],
        produced(small(), 5)[:60],
        bytearray(),
        bytearray(100),
    ],
    ids=["no producer", "transactional", "cut", "cut in its header", "nothing", "zeros"],
)
def test_what_stays(data: bytearray) -> None:
    before = bytes(data)
    with_producer_ids(data, lambda id: id + 1)
    assert bytes(data) == before


@pytest.mark.parametrize(("at", "value"), [(16, 1), (8, 0xFF), (11, 48)], ids=["magic 1", "negative length", "short"])
def test_what_is_no_batch_stays_for_the_broker(at: int, value: int) -> None:
    data = produced(small(), 5) + produced(small(), 5)
    data[at] = value
    before = bytes(data)
    with_producer_ids(data, lambda id: id + 1)
    assert bytes(data) == before


@given(st.binary(max_size=200))
def test_any_bytes_end(data: bytes) -> None:
    changed = bytearray(data)
    with_producer_ids(changed, lambda id: id ^ 1)
    assert len(changed) == len(data)
