"""Batches of producers without the dropped records, as brokers accept them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import CorruptBatch, seal
from mesh.records.encode import encode_batch
from mesh.records.numbering import ProducerBatch, producer_batch, renumbered, with_base_sequence
from mesh.records.rewrite import head_of, records_of


def batch(values: list[bytes], producer_id: int = 5, epoch: int = 2, sequence: int = 9) -> bytes:
    records = [(place, 1_000 + place, b"k", value, [("h", b"1")]) for place, value in enumerate(values)]
    data = bytearray(encode_batch(0, records).data)
    data[43:57] = (
        producer_id.to_bytes(8, "big", signed=True)
        + epoch.to_bytes(2, "big", signed=True)
        + (sequence.to_bytes(4, "big", signed=True))
    )
    seal(data)
    return bytes(data)


@given(st.lists(st.booleans(), min_size=1, max_size=20).filter(any), st.integers(0, 2**31 - 1))
def test_kept_records_are_numbered_from_zero(kept: list[bool], sequence: int) -> None:
    before = batch([b"%d" % place for place in range(len(kept))])
    left = [each for each in records_of(memoryview(before)) if kept[each.delta]]
    after = with_base_sequence(renumbered(memoryview(before), left), sequence)
    assert producer_batch(memoryview(after)) == ProducerBatch(5, 2, sequence, len(left), False)
    assert head_of(memoryview(after)).last_delta == len(left) - 1
    found = records_of(memoryview(after))  # its checksum is correct
    assert found == [each._replace(delta=delta) for delta, each in enumerate(left)]
    assert int.from_bytes(after[35:43], "big") == left[-1].timestamp, "the highest of those that are left"


def test_a_wrong_checksum_stays_wrong() -> None:
    data = bytearray(batch([b"a"]))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        records_of(memoryview(with_base_sequence(bytes(data), 3)))


def test_what_brokers_refuse_is_no_batch_of_a_producer() -> None:
    one = batch([b"a", b"b"])
    missing = bytearray(one)
    missing[57:61] = (1).to_bytes(4, "big")
    for records in (one + one, one[:-1], b"", batch([b"a"], epoch=-1), batch([b"a"], sequence=-1), bytes(missing)):
        with pytest.raises(CorruptBatch):
            producer_batch(memoryview(records))
    assert not producer_batch(memoryview(batch([b"a"], -1, -1, -1))).is_idempotent
