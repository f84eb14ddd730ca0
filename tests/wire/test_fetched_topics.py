"""Answers to a Fetch and a ShareFetch made by kio, in all versions and any pieces: each topic is seen, and none passes
that is not expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise, repeat
from typing import Any, TypeAlias
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.fetched_topics import FetchedTopics
from mesh.wire.relayed_apis import RELAYED_APIS
from tests.wire.entities import encode, entities, sample

Case: TypeAlias = tuple[ApiKey, int]
CASES: list[Case] = [
    (api_key, version) for api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH) for version in RELAYED_APIS[api_key].all()
]
SCHEMAS = {case: load_response_schema(*case) for case in CASES}
FIRST_WITH_TOPIC_IDS = 13


def framed(case: Case, entity: Any) -> bytes:
    body = b"\0\0\0\7" + (b"\0" if is_flexible(*case) else b"") + encode(entity)
    return len(body).to_bytes(4, "big") + body


def topics_of(case: Case, entity: Any) -> list[str | UUID]:
    api_key, version = case
    if api_key is ApiKey.FETCH and version < FIRST_WITH_TOPIC_IDS:
        return [each.topic for each in entity.responses]
    return [each.topic_id or UUID(int=0) for each in entity.responses]


def pieces(frame: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """The frame in pieces of these sizes, and the rest in one. The first one has the head."""
    ends = [0, 8]
    for size in sizes:
        ends.append(min(ends[-1] + size, len(frame)))
    for start, end in pairwise([*ends, len(frame)]):
        if start < end:
            yield frame[start:end]


def seen(case: Case, parts: Iterator[bytes]) -> list[str | UUID]:
    topics: list[str | UUID] = []

    def is_expected(topic: str | UUID) -> bool:
        topics.append(topic)
        return True

    check = FetchedTopics(*case, is_expected)
    for part in parts:
        check.feed(part)
    return topics


def test_all_versions_that_pass_are_known() -> None:
    assert [*((ApiKey.FETCH, each) for each in range(4, 19)), (ApiKey.SHARE_FETCH, 1), (ApiKey.SHARE_FETCH, 2)] == CASES


@cache
def answers(case: Case) -> st.SearchStrategy[Any]:
    return entities(SCHEMAS[case])


@given(st.sampled_from(CASES), st.data(), st.lists(st.integers(1, 3) | st.integers(1, 60), max_size=60))
def test_all_topics_are_seen(case: Case, data: st.DataObject, sizes: Sequence[int]) -> None:
    entity = data.draw(answers(case))
    assert seen(case, pieces(framed(case, entity), sizes)) == topics_of(case, entity)


@pytest.mark.parametrize("case", CASES)
def test_pieces_of_one_byte_and_the_whole(case: Case) -> None:
    entity = sample(SCHEMAS[case])
    frame = framed(case, entity)
    for parts in (iter([frame]), pieces(frame, list(repeat(1, len(frame))))):
        assert seen(case, parts) == topics_of(case, entity)


@pytest.mark.parametrize("case", CASES)
def test_nothing_passes_behind_a_topic_that_is_not_expected(case: Case) -> None:
    entity = sample(SCHEMAS[case])
    first, second = topics_of(case, entity)
    frame = framed(case, entity)
    name = second.bytes if isinstance(second, UUID) else second.encode()
    check, passed = FetchedTopics(*case, lambda topic: topic == first), bytearray()
    with pytest.raises(ProtocolError, match="which was not asked for"):
        for piece in pieces(frame, list(repeat(1, len(frame)))):
            check.feed(piece)
            passed += piece
    assert frame.startswith(passed) and len(passed) < frame.index(name) + len(name)
    with pytest.raises(ProtocolError, match="which was not asked for"):
        FetchedTopics(*case, lambda topic: topic == first).feed(frame)


@given(st.sampled_from(CASES), st.integers(0), st.integers(0, 255))
def test_what_is_no_answer_is_refused(case: Case, at: int, byte: int) -> None:
    """One byte becomes another one: a topic is seen or refused, and no other exception is raised."""
    frame = bytearray(framed(case, sample(SCHEMAS[case])))
    frame[8 + at % (len(frame) - 8)] = byte
    with suppress(ProtocolError):
        seen(case, iter([bytes(frame)]))


@pytest.mark.parametrize("case", CASES)
def test_an_answer_that_ends_too_early_is_refused(case: Case) -> None:
    body = framed(case, sample(SCHEMAS[case]))[4:]
    for size in range(4, len(body)):
        with pytest.raises(ProtocolError):
            seen(case, iter([size.to_bytes(4, "big") + body[:size]]))
