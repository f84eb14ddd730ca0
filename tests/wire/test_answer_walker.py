"""Answers made by kio, walked whole, byte by byte and in random chunks: all of it passes but the addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.answer_walker import VERSIONS, AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from tests.wire.entities import anatomy
from tests.wire.walked_answers import (
    ENDINGS,
    HEADER,
    WALKED,
    Answer,
    answer,
    answers,
    assert_hidden,
    assert_one_field,
    is_part,
    sampled,
    walk,
    walk_in_every_way,
)


@given(given_answer=answers())
def test_a_whole_answer_passes_uncopied(given_answer: Answer) -> None:
    api_key, version, _, frame, _ = given_answer
    walker = AnswerWalker(api_key, version, len(frame))
    chunk = memoryview(bytearray(frame))
    (piece,) = walker.feed(chunk)
    assert walker.is_done
    assert is_part(piece, chunk)
    assert_hidden(given_answer, bytes(piece))


@given(given_answer=answers(largest=500))
def test_byte_by_byte(given_answer: Answer) -> None:
    api_key, version, _, frame, _ = given_answer
    assert_hidden(given_answer, walk(AnswerWalker(api_key, version, len(frame)), frame, repeat(1)))


@given(given_answer=answers(), sizes=st.lists(st.integers(1, 100) | st.integers(1, 20_000), max_size=200))
def test_cut_anywhere(given_answer: Answer, sizes: Sequence[int]) -> None:
    api_key, version, _, frame, _ = given_answer
    assert_hidden(given_answer, walk(AnswerWalker(api_key, version, len(frame)), frame, sizes))


@pytest.mark.parametrize(("api_key", "version"), WALKED)
def test_cut_once_at_every_byte(api_key: ApiKey, version: int) -> None:
    given_answer = sampled(api_key, version)
    frame = given_answer.frame
    for cut in range(1, len(frame)):
        assert_hidden(given_answer, walk(AnswerWalker(api_key, version, len(frame)), frame, [cut]))


@pytest.mark.parametrize(("api_key", "version"), WALKED)
def test_addresses_of_every_size(api_key: ApiKey, version: int) -> None:
    """Sizes around those at which the size of the field takes one more byte."""
    given_answer = sampled(api_key, version)
    (endpoint, _) = given_answer.entity.node_endpoints
    for size in (*range(90, 140), *range(16_340, 16_400)):
        grown = replace(given_answer.entity, node_endpoints=(replace(endpoint, host="h" * size, rack=None),))
        one = answer(api_key, version, grown)
        assert_hidden(one, walk(AnswerWalker(api_key, version, len(one.frame)), one.frame, ()))
        assert_hidden(one, walk(AnswerWalker(api_key, version, len(one.frame)), one.frame, [one.end + 2]))


def test_fetch_changes_only_the_tag() -> None:
    _, version, _, frame, end = sampled(ApiKey.FETCH, 17)
    passed = walk(AnswerWalker(ApiKey.FETCH, version, len(frame)), frame, ())
    assert passed == frame[: end + 1] + b"\x7f" + frame[end + 2 :]


def test_many_partitions_whose_records_have_lengths_of_all_sizes() -> None:
    """Also of more than 2 MiB; null and empty ones, as in most partitions."""
    given_answer = sampled(ApiKey.FETCH, 17)
    topic = given_answer.entity.responses[0]
    usual = replace(topic.partitions[0], aborted_transactions=None, **_no_tagged_fields(topic.partitions[0]))
    sizes = (None, 0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_150, 2_097_151, 2_097_152, 0, None)
    partitions = tuple(replace(usual, records=None if size is None else bytes(size)) for size in sizes)
    grown = replace(given_answer.entity, responses=(replace(topic, partitions=partitions),) * 2)
    many = answer(ApiKey.FETCH, 17, grown)
    for chunk in (len(many.frame), 1 << 18, 9_973):
        assert_hidden(many, walk(AnswerWalker(ApiKey.FETCH, 17, len(many.frame)), many.frame, repeat(chunk)))


def _no_tagged_fields(partition: Any) -> dict[str, Any]:
    names = ("diverging_epoch", "current_leader", "snapshot_id")
    return {name: type(getattr(partition, name))() for name in names}


def test_tags_of_fetch_that_no_version_has_are_hidden_with_the_addresses() -> None:
    """Behind tag 127 they would not ascend."""
    _, version, _, frame, end = sampled(ApiKey.FETCH, 18)
    frame = frame[:end] + b"\x03" + frame[end + 1 :] + b"\x05\x01a" + b"\x86\x01\x00"
    passed = walk_in_every_way(ApiKey.FETCH, version, frame)
    assert passed[:end] == frame[:end]
    assert_one_field(passed[end:])


@pytest.mark.parametrize("api_key", ENDINGS)
def test_tags_that_no_version_has_pass_where_nothing_is_hidden(api_key: ApiKey) -> None:
    version = VERSIONS[api_key][0]
    given_answer = answer(api_key, version, replace(sampled(api_key, version).entity, node_endpoints=()))
    frame = given_answer.frame[:-1] + b"\x02" + b"\x05\x01a" + b"\x7f\x00"
    assert walk_in_every_way(api_key, version, frame) == frame


@pytest.mark.parametrize("count", [b"\x81\x00", b"\x81\x80\x80\x80\x00"])
@pytest.mark.parametrize("tag", [b"\x80\x00", b"\x80\x80\x80\x80\x00"])
def test_numbers_longer_than_need_be_hide_nothing_from_us(count: bytes, tag: bytes) -> None:
    _, version, _, frame, end = sampled(ApiKey.FETCH, 16)
    frame = frame[:end] + count + tag + frame[end + 2 :]
    passed = walk_in_every_way(ApiKey.FETCH, version, frame)
    assert passed[:end] == frame[:end]
    assert_one_field(passed[end:])


TAGGED = b"\x02" + b"\x09\x01a" + b"\xff\x01\x00"
"""Two fields that no version has, tags 9 and 255."""


def test_tagged_fields_of_fetch_that_no_version_has_are_passed_wherever_they_are() -> None:
    aborted = b"\x04" + (bytes(16) + b"\x00") + (bytes(16) + TAGGED) + (bytes(16) + b"\x00")
    partition = bytes(30) + aborted + bytes(4) + b"\x05abcd" + TAGGED
    frame = HEADER[:-1] + TAGGED + bytes(10) + b"\x02" + bytes(16) + b"\x02" + partition + TAGGED + b"\x00"
    assert walk_in_every_way(ApiKey.FETCH, 16, frame) == frame


def test_tagged_fields_of_share_fetch_that_no_version_has_are_passed_wherever_they_are() -> None:
    acquired = b"\x03" + (bytes(18) + TAGGED) + (bytes(18) + b"\x00")
    partition = bytes(6) + b"\x00" + bytes(2) + b"\x01" + bytes(8) + TAGGED + b"\x05abcd" + acquired + TAGGED
    topics = b"\x02" + bytes(16) + b"\x02" + partition + TAGGED
    before = HEADER[:-1] + TAGGED + bytes(6) + b"\x00" + bytes(4) + topics
    frame = before + b"\x01" + TAGGED
    assert walk_in_every_way(ApiKey.SHARE_FETCH, 1, frame) == frame
    endpoint = bytes(4) + b"\x02h" + bytes(4) + b"\x00" + TAGGED
    passed = walk_in_every_way(ApiKey.SHARE_FETCH, 1, before + b"\x02" + endpoint + TAGGED)
    assert passed[: len(before) + 1] == before + b"\x01"
    assert_one_field(passed[len(before) + 1 :])


def test_an_empty_answer() -> None:
    frame = HEADER + bytes(10) + b"\x01\x00"
    assert walk_in_every_way(ApiKey.FETCH, 16, frame) == frame


@pytest.mark.parametrize("api_key", ENDINGS)
def test_elements_as_small_as_can_be(api_key: ApiKey) -> None:
    """It refuses no count that fits into the frame."""
    version = VERSIONS[api_key][0]
    entity = sampled(api_key, version).entity
    topic = entity.responses[0]
    endpoint = replace(entity.node_endpoints[0], host="", rack=None)
    partition, many = _smallest(topic.partitions[0]), 50
    for topics, endpoints in (
        ((), (endpoint,) * many),
        ((replace(topic, partitions=()),) * many, ()),
        ((replace(topic, partitions=(partition,) * many),), ()),
        ((replace(topic, partitions=(_with_many_elements(topic.partitions[0], many),)),), ()),
    ):
        smallest = answer(api_key, version, replace(entity, responses=topics, node_endpoints=endpoints))
        assert_hidden(smallest, walk_in_every_way(api_key, version, smallest.frame))


def _smallest(partition: Any) -> Any:
    if hasattr(partition, "acquired_records"):
        nothing = {"error_message": None, "acknowledge_error_message": None, "acquired_records": ()}
        return replace(partition, records=b"", **nothing)
    return replace(partition, records=None, aborted_transactions=None, **_no_tagged_fields(partition))


def _with_many_elements(partition: Any, many: int) -> Any:
    """Bytes with many elements and nothing behind them."""
    if hasattr(partition, "acquired_records"):
        return replace(partition, acquired_records=partition.acquired_records[:1] * many)
    return replace(_smallest(partition), aborted_transactions=partition.aborted_transactions[:1] * many)


@pytest.mark.parametrize("parts", [1, 2])
def test_no_chunk_is_kept(parts: int) -> None:
    """A buffer is used again as soon as its bytes are sent; a buffer with references to it cannot be cleared."""
    frame = sampled(ApiKey.FETCH, 17).frame
    for cut in range(1, len(frame)):
        walker = AnswerWalker(ApiKey.FETCH, 17, len(frame))
        for part in (frame[:cut], frame[cut:])[:parts]:
            buffer = bytearray(part)
            walker.feed(memoryview(buffer))
            buffer.clear()


@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize(("api_key", "version"), WALKED)
def test_an_answer_that_ends_early(api_key: ApiKey, version: int, in_chunks: bool) -> None:
    frame = sampled(api_key, version).frame
    for length in range(1, len(frame)):
        with pytest.raises(ProtocolError):
            walk(
                AnswerWalker(api_key, version, length), frame[:length], repeat(length // 2 + 1 if in_chunks else length)
            )


@pytest.mark.parametrize("chunk", [1, 10_000])
@pytest.mark.parametrize(("api_key", "version"), WALKED)
def test_an_answer_that_ends_late(api_key: ApiKey, version: int, chunk: int) -> None:
    frame = sampled(api_key, version).frame + b"\x00"
    with pytest.raises(ProtocolError) as caught:
        walk(AnswerWalker(api_key, version, len(frame)), frame, repeat(chunk))
    assert caught.value.reason == "trailing_bytes"


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (b"\x02\x05\x00\x00\x00", "invalid_tag"),  # addresses behind another tag
        (b"\x02\x00\x01\x01\x00\x01\x01", "invalid_tag"),  # twice
        (b"\x01\x00\x00", "truncated"),
        (b"\x01\x00\x02\x01\x00", "invalid_tag"),  # a byte behind the addresses
        (b"\x80\x80\x80\x80\x80\x01", "invalid_varint"),
        (b"\x01\x05\x05\x00", "truncated"),
        (b"\xff\xff\xff\xff\x0f", "truncated"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 100])
def test_ends_that_cannot_be(end: bytes, reason: str, chunk: int) -> None:
    frame = HEADER + bytes(10) + b"\x01" + end
    with pytest.raises(ProtocolError) as caught:
        walk(AnswerWalker(ApiKey.FETCH, 16, len(frame)), frame, repeat(chunk))
    assert caught.value.reason == reason


@pytest.mark.parametrize("chunk", [1, 3, 10_000])
@pytest.mark.parametrize("leaf", [0, 5])
def test_the_sizes_and_the_order_of_tags_are_checked(leaf: int, chunk: int) -> None:
    message = (ApiKey.FETCH, 17, Direction.RESPONSE)
    parts = anatomy.whole(message)

    def walked() -> None:
        frame = HEADER + anatomy.encoded(parts)
        walk(AnswerWalker(ApiKey.FETCH, 17, len(frame), leaf), frame, repeat(chunk))

    walked()
    for section in anatomy.sections(parts):
        known = section.fields[:]
        for field in known:
            for more in (-1, 1):
                field.more = more
                with pytest.raises(ProtocolError, match=r"at tag|announced"):
                    walked()
            field.more = 0
        section.fields = [*known, anatomy.Tagged(99, []), anatomy.Tagged(98, [])]
        with pytest.raises(ProtocolError, match="tags must ascend"):
            walked()
        section.fields = known


@pytest.mark.parametrize("number", [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f"])
@pytest.mark.parametrize("before", [b"", b"\x02" + bytes(16), b"\x02" + bytes(16) + b"\x02" + bytes(30)])
def test_counts_that_do_not_fit_the_frame(before: bytes, number: bytes) -> None:
    frame = HEADER + bytes(10) + before + number + bytes(100)
    with pytest.raises(ProtocolError, match="announced"):
        AnswerWalker(ApiKey.FETCH, 16, len(frame)).feed(memoryview(bytearray(frame)))


@given(
    walked=st.sampled_from(WALKED),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    sizes=st.lists(st.integers(1, 100), max_size=30),
)
def test_changed_bytes(walked: tuple[ApiKey, int], changes: list[tuple[int, int]], sizes: list[int]) -> None:
    """They pass or raise, in chunks as well as whole."""
    frame = bytearray(sampled(*walked).frame)
    for place, byte in changes:
        frame[place % len(frame)] = byte
    assert outcome(walked, bytes(frame), sizes) == outcome(walked, bytes(frame), ())


@given(walked=st.sampled_from(WALKED), frame=st.binary(min_size=4, max_size=300), sizes=st.lists(st.integers(1, 100)))
def test_random_bytes(walked: tuple[ApiKey, int], frame: bytes, sizes: list[int]) -> None:
    assert outcome(walked, frame, sizes) == outcome(walked, frame, ())


def outcome(walked: tuple[ApiKey, int], frame: bytes, sizes: Iterable[int]) -> bytes | str:
    try:
        return walk(AnswerWalker(*walked, len(frame)), frame, sizes)
    except ProtocolError as problem:
        return problem.reason


@pytest.mark.parametrize(("api_key", "version"), [(ApiKey.FETCH, 15), (ApiKey.FETCH, 19), (ApiKey.PRODUCE, 9)])
def test_other_answers_are_not_walked(api_key: ApiKey, version: int) -> None:
    with pytest.raises(ValueError, match="not walked"):
        AnswerWalker(api_key, version, 100)


def test_more_than_the_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="left of the frame"):
        AnswerWalker(ApiKey.FETCH, 17, 3).feed(memoryview(bytearray(4)))
