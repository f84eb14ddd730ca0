"""Requests and answers while topics are moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from mesh.routing.moves.translation import MovingTranslation, fetched_elsewhere, topics_in
from mesh.wire.answer_walker import AnswerWalker
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.one_partition import OnePartition
from mesh.wire.passing import REQUEST_HEAD, RequestHead
from mesh.wire.routed import PassedRequest
from mesh.wire.trees import Tree, read_tree, write_tree

ID = UUID(int=7)


class Held:
    """Holds orders if a test says so."""

    is_known = True
    has_any = False
    has_unaccepted_offsets = False

    def __init__(self) -> None:
        self.unanswered = 0

    def holds(self, topic: str | UUID) -> bool:
        return self.has_any and topic in ("orders", ID)

    def passed_unanswered(self) -> None:
        self.unanswered += 1


class Passing:
    """Passes everything. Implements `mesh.wire.routed.Translation`."""

    def __init__(self, *, is_answered: bool = True) -> None:
        self._is_answered = is_answered

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        return PassedRequest((frame,), self._is_answered)

    def passes_unchanged(self, produced: OnePartition) -> bool:
        return False

    def may_change_records(self, beginning: memoryview, size: int) -> bool:
        return False

    def walker(self, api_key: ApiKey, version: int, size: int) -> AnswerWalker | None:
        return None

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
        return is_plain

    def answer(self, api_key: ApiKey, version: int, answer: memoryview) -> Sequence[Buffer]:
        return [answer]


def passes(to: MovingTranslation, api_key: ApiKey, version: int, request: Tree) -> bool:
    body = write_tree(api_key, version, Direction.REQUEST, request)
    tags = b"\0" if is_flexible(api_key, version) else b""
    rest = b"\xff\xff" + tags + body
    head = RequestHead(len(rest) + REQUEST_HEAD.size - 4, api_key, version, 1)
    return to.request(head, memoryview(REQUEST_HEAD.pack(*head) + rest)) is not None


def produce(topic: str = "orders", acks: int = -1, **more: Any) -> Tree:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": b"x"}], **more}]
    return {"acks": acks, "timeout_ms": 1, "topic_data": data}


def commit(topic: str = "orders", **more: Any) -> Tree:
    partitions = [{"partition_index": 0, "committed_offset": 3}]
    return {"group_id": "g", "topics": [{"name": topic, "partitions": partitions, **more}]}


@pytest.mark.parametrize("version", [7, 9, 12])
def test_what_writes_to_a_held_topic_waits(version: int) -> None:
    held = Held()
    to = MovingTranslation(Passing(), held, is_moved_from=False)
    assert passes(to, ApiKey.PRODUCE, version, produce())
    held.has_any = True
    assert not passes(to, ApiKey.PRODUCE, version, produce())
    assert passes(to, ApiKey.PRODUCE, version, produce("other"))


def test_topics_are_held_by_their_ids_too() -> None:
    held = Held()
    held.has_any = True
    to = MovingTranslation(Passing(), held, is_moved_from=False)
    assert not passes(to, ApiKey.PRODUCE, 13, produce(topic_id=ID))
    assert passes(to, ApiKey.PRODUCE, 13, produce(topic_id=UUID(int=8)))
    assert not passes(to, ApiKey.OFFSET_COMMIT, 10, commit(topic_id=ID))
    assert not passes(to, ApiKey.OFFSET_COMMIT, 8, commit())
    assert passes(to, ApiKey.OFFSET_COMMIT, 8, commit("other"))


def test_what_reads_a_held_topic_passes() -> None:
    held = Held()
    held.has_any = True
    assert passes(MovingTranslation(Passing(), held, is_moved_from=False), ApiKey.FETCH, 12, fetch(0))


def test_a_held_topic_takes_nothing_without_acks() -> None:
    held = Held()
    held.has_any = True
    with pytest.raises(ProtocolError, match="being moved"):
        passes(MovingTranslation(Passing(), held, is_moved_from=False), ApiKey.PRODUCE, 9, produce(acks=0))


def test_it_is_told_what_passes_unanswered() -> None:
    held = Held()
    passes(MovingTranslation(Passing(is_answered=False), held, is_moved_from=False), ApiKey.PRODUCE, 9, produce(acks=0))
    assert held.unanswered == 1


def test_nothing_passes_before_it_is_known_where_topics_are() -> None:
    held = Held()
    held.is_known = False
    to = MovingTranslation(Passing(), held, is_moved_from=False)
    assert not passes(to, ApiKey.PRODUCE, 9, produce("other"))
    assert not passes(to, ApiKey.FETCH, 12, fetch(0))
    with pytest.raises(ProtocolError, match="not known yet"):
        passes(to, ApiKey.PRODUCE, 9, produce("other", acks=0))


def test_offsets_that_only_the_moves_know_are_answered_here() -> None:
    held = Held()
    to = MovingTranslation(Passing(), held, is_moved_from=False)
    request = {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    assert passes(to, ApiKey.OFFSET_FETCH, 7, request)
    held.has_unaccepted_offsets = True
    assert not passes(to, ApiKey.OFFSET_FETCH, 7, request)


def fetch(epoch: int) -> Tree:
    partitions = [{"partition": 0, "fetch_offset": 3, "partition_max_bytes": 1}]
    topics = [{"topic": "orders", "topic_id": ID, "partitions": partitions}]
    return {"max_wait_ms": 1, "min_bytes": 1, "max_bytes": 1, "session_epoch": epoch, "topics": topics}


@pytest.mark.parametrize("version", [7, 11, 12, 14, 15, 18])
def test_where_a_topic_has_left_the_first_fetch_names_everything(version: int) -> None:
    to = MovingTranslation(Passing(), Held(), is_moved_from=True)
    assert not passes(to, ApiKey.FETCH, version, fetch(4))
    assert passes(to, ApiKey.FETCH, version, fetch(0))
    assert passes(to, ApiKey.FETCH, version, fetch(1))


@pytest.mark.parametrize("version", [4, 6])
def test_without_sessions_everything_is_named_anyhow(version: int) -> None:
    assert passes(MovingTranslation(Passing(), Held(), is_moved_from=True), ApiKey.FETCH, version, fetch(4))


def test_a_fetch_of_what_is_elsewhere_is_told_so_of_each_partition() -> None:
    """Then Java looks for leaders; it does not if the whole answer has the error."""
    answer = fetched_elsewhere(12, fetch(0))
    assert answer["error_code"] == 0
    assert answer["responses"][0]["partitions"][0]["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for version in (4, 12, 13, 18):
        written = write_tree(ApiKey.FETCH, version, Direction.RESPONSE, fetched_elsewhere(version, fetch(-1)))
        (topic,) = read_tree(ApiKey.FETCH, version, Direction.RESPONSE, memoryview(written))["responses"]
        assert bytes(topic["partitions"][0]["records"]) == b"", "librdkafka cannot read an answer with null"


def test_a_fetch_that_goes_on_with_a_session_has_to_start_again() -> None:
    answer = fetched_elsewhere(12, fetch(3))
    assert answer["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer["responses"] == []


def test_topics_by_name_and_by_id() -> None:
    assert [*topics_in(ApiKey.PRODUCE, produce())] == ["orders"]
    assert [*topics_in(ApiKey.PRODUCE, produce(topic_id=ID))] == [ID]
    assert [*topics_in(ApiKey.OFFSET_COMMIT, commit())] == ["orders"]
