"""Answers to a Fetch made by kio, in all versions and any pieces: each topic is seen, and none passes that is not
expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise, repeat
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.fetched_topics import FetchedTopics
from mesh.wire.relayed_apis import RELAYED_APIS
from tests.wire.entities import encode, entities, sample

VERSIONS = list(RELAYED_APIS[ApiKey.FETCH].all())
SCHEMAS = {version: load_response_schema(ApiKey.FETCH, version) for version in VERSIONS}
FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS = 12, 13


def framed(version: int, entity: Any) -> bytes:
    body = b"\0\0\0\7" + (b"\0" if version >= FIRST_FLEXIBLE else b"") + encode(entity)
    return len(body).to_bytes(4, "big") + body


def topics_of(version: int, entity: Any) -> list[str | UUID]:
    if version < FIRST_WITH_TOPIC_IDS:
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


def seen(version: int, parts: Iterator[bytes]) -> list[str | UUID]:
    topics: list[str | UUID] = []

    def is_expected(topic: str | UUID) -> bool:
        topics.append(topic)
        return True

    check = FetchedTopics(version, is_expected)
    for part in parts:
        check.feed(part)
    return topics


def test_all_versions_that_pass_are_known() -> None:
    assert list(range(4, 19)) == VERSIONS


@cache
def answers(version: int) -> st.SearchStrategy[Any]:
    return entities(SCHEMAS[version])


@given(st.sampled_from(VERSIONS), st.data(), st.lists(st.integers(1, 3) | st.integers(1, 60), max_size=60))
def test_all_topics_are_seen(version: int, data: st.DataObject, sizes: Sequence[int]) -> None:
    entity = data.draw(answers(version))
    assert seen(version, pieces(framed(version, entity), sizes)) == topics_of(version, entity)


@pytest.mark.parametrize("version", VERSIONS)
def test_pieces_of_one_byte_and_the_whole(version: int) -> None:
    entity = sample(SCHEMAS[version])
    frame = framed(version, entity)
    for parts in (iter([frame]), pieces(frame, list(repeat(1, len(frame))))):
        assert seen(version, parts) == topics_of(version, entity)


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_passes_behind_a_topic_that_is_not_expected(version: int) -> None:
    entity = sample(SCHEMAS[version])
    first, second = topics_of(version, entity)
    frame = framed(version, entity)
    name = second.bytes if isinstance(second, UUID) else second.encode()
    check, passed = FetchedTopics(version, lambda topic: topic == first), bytearray()
    with pytest.raises(ProtocolError, match="which was not asked for"):
        for piece in pieces(frame, list(repeat(1, len(frame)))):
            check.feed(piece)
            passed += piece
    assert frame.startswith(passed) and len(passed) < frame.index(name) + len(name)
    with pytest.raises(ProtocolError, match="which was not asked for"):
        FetchedTopics(version, lambda topic: topic == first).feed(frame)


@given(st.sampled_from(VERSIONS), st.integers(0), st.integers(0, 255))
def test_what_is_no_answer_is_refused(version: int, at: int, byte: int) -> None:
    """One byte becomes another one: a topic is seen or refused, and no other exception is raised."""
    frame = bytearray(framed(version, sample(SCHEMAS[version])))
    frame[8 + at % (len(frame) - 8)] = byte
    with suppress(ProtocolError):
        seen(version, iter([bytes(frame)]))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_ends_too_early_is_refused(version: int) -> None:
    body = framed(version, sample(SCHEMAS[version]))[4:]
    for size in range(4, len(body)):
        with pytest.raises(ProtocolError):
            seen(version, iter([size.to_bytes(4, "big") + body[:size]]))
