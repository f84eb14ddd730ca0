"""The batches that a move writes to the target, so that each record keeps its offset."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack_into

import pytest

from mesh.records.batch import RecordBatch, body_of, is_intact, seal
from mesh.records.encode import encode_batch
from mesh.routing.moves.copying import MOST_FILLED, Fill, NotCopied, Put, filling, fills, is_same, steps

ATTRIBUTES_AT = 21
PRODUCER_AT = 43


def batch(base: int, count: int = 2, *, attributes: int = 0, producer: int = -1, value: bytes = b"v") -> bytes:
    data = bytearray(encode_batch(base, [(base + each, 7, b"k", value, None) for each in range(count)]).data)
    pack_into(">h", data, ATTRIBUTES_AT, attributes)
    pack_into(">qhi", data, PRODUCER_AT, producer, 0 if producer >= 0 else -1, 0 if producer >= 0 else -1)
    seal(data)
    return bytes(data)


def sent(base: int, count: int = 2, **more: int) -> bytes:
    """The same batch as a producer sends it."""
    return bytes(8) + batch(base, count, **more)[8:]  # type: ignore[arg-type]


def planned(*batches: bytes, position: int = 0, log_start: int = 0) -> Sequence[Put | Fill]:
    return [*steps(memoryview(b"".join(batches)), position, log_start, lambda producer: producer)]


def test_batches_are_written_one_by_one_as_they_are() -> None:
    first, second = batch(5), batch(7, 3)
    assert planned(first, second, position=5) == [Put(sent(5), 5, 7), Put(sent(7, 3), 7, 10)]


def test_a_batch_that_is_cut_off_is_left_for_the_next_answer() -> None:
    whole = batch(0)
    assert planned(whole, batch(2)[:-1]) == [Put(sent(0), 0, 2)]
    assert planned(whole[:30]) == []


def test_what_the_source_has_no_more_is_filled() -> None:
    """The log begins within the batch of 40 and 41."""
    assert planned(batch(40), position=0, log_start=41) == [Fill(40, 7), Put(sent(40), 40, 42)]


def test_many_offsets_are_filled_in_several_batches() -> None:
    assert [each.count for each in fills(2 * MOST_FILLED + 1, 0)] == [MOST_FILLED, MOST_FILLED, 1]


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 10_000])
def test_a_filling_batch_is_one_of_empty_records(count: int) -> None:
    data = filling(Fill(count, 12))
    made = RecordBatch(bytearray(data), 0, 0, count - 1, count)
    assert is_intact(made)
    body = body_of(made)
    plain = encode_batch(0, [(each, 12, None, None, None) for each in range(count)])
    assert body == body_of(plain)
    assert bytes(data[:8]) == bytes(8) and data[23:27] == (count - 1).to_bytes(4, "big")
    assert data[27:61] == bytes(plain.data[27:61])


@pytest.mark.parametrize(
    ("first", "position", "log_start", "kind"),
    [
        (batch(9), 5, 0, "gap"),
        (batch(9), 5, 7, "gap"),
        (batch(4), 5, 0, "misaligned"),
        (batch(5, attributes=0x10), 5, 0, "transactions"),
        (batch(5, attributes=0x20), 5, 0, "transactions"),
        (batch(5, attributes=0x08), 5, 0, "log_append_time"),
        (bytes(100), 0, 0, "message_format"),
    ],
)
def test_what_cannot_have_its_offset_is_named(first: bytes, position: int, log_start: int, kind: str) -> None:
    with pytest.raises(NotCopied, match=kind) as refused:
        planned(first, position=position, log_start=log_start)
    assert refused.value.kind == kind


def test_producers_are_known_by_the_ids_of_the_target() -> None:
    (put,) = steps(memoryview(batch(0, producer=3)), 0, 0, lambda producer: producer + 100)
    assert isinstance(put, Put)
    assert put.batch == batch(0, producer=103)


def test_a_batch_without_its_producer() -> None:
    (put,) = planned(batch(0, producer=3))
    assert isinstance(put, Put)
    assert put.without_producer == Put(batch(0), 0, 2)


def test_the_same_records_are_known_whoever_wrote_them() -> None:
    ours = memoryview(batch(4, producer=3))
    assert is_same(ours, memoryview(batch(4, producer=8) + batch(6)))
    assert not is_same(ours, memoryview(batch(5)))
    assert not is_same(ours, memoryview(batch(4, value=b"w")))
    assert not is_same(ours, memoryview(batch(4, 3)))
    assert not is_same(ours, memoryview(b""))
