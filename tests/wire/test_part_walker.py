"""Fetch answers some of whose topics have other ids and other partitions for clients, walked in chunks of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise, repeat
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.answer_walker import AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.part_walker import VERSIONS_WITH_PARTS, PartWalker, Shift
from mesh.wire.trees import read_tree
from tests.wire.walked_answers import HEADER, Answer, answer, answers, sampled, walk

VERSIONS = VERSIONS_WITH_PARTS[ApiKey.FETCH]
TOLD = UUID(int=1 << 90)


EPOCHS = 3 << 20


def shifts(given_answer: Answer, shift: int) -> dict[bytes, Shift]:
    """The shifts of the first topic."""
    first = next(iter(given_answer.entity.responses), None)
    return {} if first is None else {first.topic_id.bytes: Shift(TOLD.bytes, shift, EPOCHS)}


def walked(given_answer: Answer, leaf: int, shift: int, sizes: Iterable[int]) -> bytes:
    version, frame = given_answer.version, given_answer.frame
    walker = PartWalker(ApiKey.FETCH, version, len(frame), leaf, shifts(given_answer, shift))
    passed = bytearray()
    for start, end in pairwise(chain([0], _ends(sizes, len(frame)))):
        for piece in walker.feed(memoryview(bytearray(frame[start:end]))):
            passed += piece
    assert walker.is_done
    return bytes(passed)


def _ends(sizes: Iterable[int], length: int) -> Iterator[int]:
    end = 0
    for size in sizes:
        end += size
        if end >= length:
            break
        yield end
    yield length


def check(given_answer: Answer, leaf: int, shift: int, passed: bytes) -> None:
    """Asserts that the bytes equal those of a walker without parts, with the first topic's id, partitions and epochs
    changed."""
    version, frame = given_answer.version, given_answer.frame
    usual = walk(AnswerWalker(ApiKey.FETCH, version, len(frame), leaf), frame, ())
    told = read_tree(ApiKey.FETCH, version, Direction.RESPONSE, usual[len(HEADER) :])
    for topic in told["responses"][:1]:
        topic["topic_id"] = TOLD
        for each in topic["partitions"]:
            each["partition_index"] += shift
            if each["current_leader"]["leader_epoch"] >= 0:
                shifted = each["current_leader"]["leader_epoch"] + EPOCHS
                each["current_leader"]["leader_epoch"] = min(shifted, 2**31 - 1)
    assert read_tree(ApiKey.FETCH, version, Direction.RESPONSE, passed[len(HEADER) :]) == told
    assert passed[given_answer.end :] == usual[given_answer.end :], "addresses are hidden as ever"


def fetches(largest: int = 50_000) -> st.SearchStrategy[Answer]:
    """Fetch answers with usual partition numbers, and node ids of one cluster."""

    def usual(given_answer: Answer) -> Answer:
        def partition(number: int, each: Any) -> Any:
            return replace(each, partition_index=number, preferred_read_replica=number - 1)

        topics = tuple(
            replace(
                topic,
                topic_id=UUID(int=4 + place),
                partitions=tuple(partition(*each) for each in enumerate(topic.partitions)),
            )
            for place, topic in enumerate(given_answer.entity.responses)
        )
        return answer(given_answer.api_key, given_answer.version, replace(given_answer.entity, responses=topics))

    return answers(largest).filter(lambda each: each.api_key is ApiKey.FETCH).map(usual)


@given(
    given_answer=fetches(), shift=st.integers(0, 9_999), sizes=st.lists(st.integers(1, 100) | st.integers(1, 20_000))
)
def test_cut_anywhere(given_answer: Answer, shift: int, sizes: Sequence[int]) -> None:
    passed = walked(given_answer, 0, shift, sizes)
    assert len(passed) == len(given_answer.frame)
    check(given_answer, 0, shift, passed)


@pytest.mark.parametrize("version", [16, 17, 18])
@pytest.mark.parametrize("leaf", [0, 1])
def test_cut_once_at_every_byte(version: int, leaf: int) -> None:
    given_answer = sampled(ApiKey.FETCH, version)
    whole = walked(given_answer, leaf, 5, ())
    check(given_answer, leaf, 5, whole)
    for cut in range(1, len(given_answer.frame)):
        assert walked(given_answer, leaf, 5, [cut]) == whole
    assert walked(given_answer, leaf, 5, repeat(1)) == whole


def test_chunks_are_passed_uncopied() -> None:
    given_answer = sampled(ApiKey.FETCH, 17)
    walker = PartWalker(ApiKey.FETCH, 17, len(given_answer.frame), 0, shifts(given_answer, 7))
    chunk = memoryview(bytearray(given_answer.frame))
    (piece,) = walker.feed(chunk)
    assert isinstance(piece, memoryview)
    assert piece.obj is chunk.obj


def test_other_answers_are_not_walked() -> None:
    for api_key, version in ((ApiKey.FETCH, 12), (ApiKey.SHARE_FETCH, 1)):
        with pytest.raises(ValueError, match="not walked"):
            PartWalker(api_key, version, 100, 0, {})
    assert [*VERSIONS] == [13, 14, 15, 16, 17, 18]


def test_an_answer_that_ends_within_an_id_is_an_error() -> None:
    frame = HEADER + bytes(10) + b"\x02" + bytes(10)
    walker = PartWalker(ApiKey.FETCH, 17, len(frame), 0, {})
    with pytest.raises(ProtocolError, match="announced"):
        walker.feed(memoryview(bytearray(frame)))
