"""Translation between a client and its leaf while topics are moved. It does not pass on writes to held topics, and no
Fetch that may leave out a moved topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, Final, Protocol
from uuid import UUID

from mesh.wire.answer_walker import AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.one_partition import OnePartition
from mesh.wire.passing import RequestHead
from mesh.wire.produce_batches import body_of
from mesh.wire.produce_head import acks_of
from mesh.wire.routed import PassedRequest, Translation
from mesh.wire.trees import ZERO_ID, Tree, read_tree

WRITING: Final = frozenset({ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
"""Requests that change the state that a move copies: records, and offsets of groups."""
_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITHOUT_REPLICA: Final = 15
"""The first version of Fetch without a replica id: its session is four bytes earlier."""
_EPOCH: Final = Struct(">i")
_EPOCH_AT: Final = 21


class HeldTopics(Protocol):
    """The topics that are held now.

    is_known: whether this process knows where moved topics are. has_any: whether any topic is held.
    has_unaccepted_offsets: whether some offsets of groups are known to moves only.
    """

    @property
    def has_unaccepted_offsets(self) -> bool: ...

    @property
    def is_known(self) -> bool: ...

    @property
    def has_any(self) -> bool: ...

    def holds(self, topic: str | UUID) -> bool:
        """Returns True if a topic is held. topic: its name or id at clients."""

    def passed_unanswered(self) -> None:
        """Notes that a Produce with acks=0 passes now: no answer will show when it has arrived."""


class MovingTranslation:
    """A translation that does not pass on writes to held topics. Implements `mesh.wire.routed.Translation`.

    is_moved_from: whether topics have moved away from this leaf. If so, the first Fetch of each connection must name
    all partitions; a Fetch that continues a session does not.
    """

    def __init__(self, translation: Translation, held: HeldTopics, *, is_moved_from: bool) -> None:
        self._translation: Final = translation
        self._held: Final = held
        self._must_name_all = is_moved_from

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        api_key, version = ApiKey(head.api_key), head.api_version
        if not self._held.is_known:
            if api_key is ApiKey.PRODUCE and not acks_of(version, frame):
                raise ProtocolError("produce", "where the topic is is not known yet, and there is no answer to say so")
            return None
        if api_key is ApiKey.FETCH and self._must_name_all:
            if _is_incremental(version, frame):
                return None
            self._must_name_all = False
        if api_key is ApiKey.OFFSET_FETCH and self._held.has_unaccepted_offsets:
            return None
        if self._held.has_any and api_key in WRITING and self._is_held(api_key, version, frame):
            return None
        passed = self._translation.request(head, frame)
        if passed is not None and not passed.is_answered:
            self._held.passed_unanswered()
        return passed

    def passes_unchanged(self, produced: OnePartition) -> bool:
        is_held = not self._held.is_known or self._held.has_any
        return not is_held and self._translation.passes_unchanged(produced)

    def may_change_records(self, beginning: memoryview, size: int) -> bool:
        return self._translation.may_change_records(beginning, size)

    def walker(self, api_key: ApiKey, version: int, size: int) -> AnswerWalker | None:
        return self._translation.walker(api_key, version, size)

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
        return self._translation.is_changed(api_key, version, is_plain=is_plain)

    def answer(self, api_key: ApiKey, version: int, answer: memoryview) -> Sequence[Buffer]:
        return self._translation.answer(api_key, version, answer)

    def _is_held(self, api_key: ApiKey, version: int, frame: memoryview) -> bool:
        request = read_tree(api_key, version, Direction.REQUEST, frame[body_of(api_key, version, frame) :])
        if not any(self._held.holds(topic) for topic in topics_in(api_key, request)):
            return False
        if api_key is ApiKey.PRODUCE and not request["acks"]:
            raise ProtocolError("produce", "the topic is being moved, and there is no answer to say so")
        return True


def topics_in(api_key: ApiKey, request: Tree) -> Iterator[str | UUID]:
    """Yields the topics in a request of `WRITING`, by name or id."""
    for topic in request["topic_data" if api_key is ApiKey.PRODUCE else "topics"] or ():
        id = topic.get("topic_id", ZERO_ID)
        name: str | None = topic.get("name")
        if id != ZERO_ID:
            yield id
        elif name is not None:
            yield name


def fetched_elsewhere(version: int, request: Tree) -> Tree:
    """Returns the answer to a Fetch that does not pass. Clients look for new leaders if partitions have the error, but
    not if the whole answer has it. A Fetch that continues a session gets a session error, so that the next one names
    all partitions."""
    if request.get("session_epoch", 0) > 0:
        return {"error_code": int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), "session_id": 0, "responses": []}
    return {"error_code": 0, "session_id": 0, "responses": [_elsewhere(topic) for topic in request["topics"]]}


def _elsewhere(topic: Tree) -> Tree:
    partitions: list[dict[str, Any]] = [
        {
            "partition_index": each["partition"],
            "error_code": int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            "high_watermark": -1,
            "records": b"",
        }
        for each in topic["partitions"]
    ]
    return {**topic, "partitions": partitions}


def _is_incremental(version: int, frame: memoryview) -> bool:
    """Returns True if a Fetch continues a session, and so may leave out partitions."""
    if version < _FIRST_WITH_SESSIONS:
        return False
    at = body_of(ApiKey.FETCH, version, frame) + _EPOCH_AT - (4 if version >= _FIRST_WITHOUT_REPLICA else 0)
    if at + _EPOCH.size > len(frame):
        raise ProtocolError("truncated", "a Fetch that ends before its session")
    return bool(_EPOCH.unpack_from(frame, at)[0] > 0)
