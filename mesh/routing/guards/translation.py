"""Passes messages between a client under rules and the leaf of its connection, if the request is fully allowed and its
answer is the same for every client. The mesh answers all other requests itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final
from uuid import UUID

from mesh.routing.guards.authorization import TopicIdNames
from mesh.routing.guards.judge import Judge
from mesh.security.rules import Access, Operation, Refusal, ResourceType
from mesh.wire.answer_walker import AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction, Unchanged, program
from mesh.wire.errors import ProtocolError
from mesh.wire.fetched_topics import FetchedTopics
from mesh.wire.frames import with_length
from mesh.wire.messages import Buffer
from mesh.wire.one_partition import OnePartition
from mesh.wire.passing import RequestHead
from mesh.wire.produce_batches import parts_of, without_header_tags
from mesh.wire.routed import PassedRequest, Translation
from mesh.wire.trees import read_request, read_tree

_SESSION: Final = Struct(">ii")
"""The id and epoch of the session of a Fetch."""
_NO_SESSION: Final = _SESSION.pack(0, -1)
_FIRST_WITH_SESSION: Final = 7
_FIRST_WITHOUT_REPLICA: Final = 15
_IN_FRONT: Final = 13
"""Bytes of the fields max_wait, min_bytes, max_bytes and isolation_level."""
_REPLICA: Final = 4


class _Refused(Exception):
    """Raised if something in a request is not allowed, or if the request has to be read as a whole."""


class _Asked(Unchanged):
    """Checks each entity in a request: topics for one operation, transactions for WRITE. Raises `_Refused`.

    topics: gets the names and ids of all topics."""

    __slots__ = ("_access", "_names", "_operation", "_topics")

    def __init__(self, access: Access, operation: Operation, names: TopicIdNames, topics: set[str | UUID]) -> None:
        self._access: Final = access
        self._operation: Final = operation
        self._names: Final = names
        self._topics: Final = topics

    def node(self, node: int) -> int:
        raise _Refused  # the client is a replica

    def topic(self, name: str) -> str:
        if not self._access.allows(self._operation, ResourceType.TOPIC, name):
            raise _Refused
        self._topics.add(name)
        return name

    def topic_id(self, topic_id: UUID) -> UUID:
        name = self._names.topic_name(topic_id)
        if name is None:
            raise _Refused
        self.topic(name)
        self._topics.add(topic_id)
        return topic_id

    def transactional_id(self, transactional_id: str) -> str:
        if not self._access.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            raise _Refused
        return transactional_id


class GuardedTranslation:
    """A translation for a client under rules. Implements `mesh.wire.routed.Translation`. inner: the translation for a
    client without rules. on_refused: takes the refusals of a request that ends the connection, with its frame."""

    def __init__(
        self, inner: Translation, judge: Judge, on_refused: Callable[[ApiKey, Buffer, Sequence[Refusal]], None]
    ) -> None:
        self._inner: Final = inner
        self._on_refused: Final = on_refused
        self._judge: Final = judge

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        api_key, topics = ApiKey(head.api_key), set[str | UUID]()
        judged = self._judged(api_key, head.api_version, frame, topics)
        passed = None if judged is None else self._inner.request(head, judged)
        if passed is None or self._judge.access.is_unlimited:
            return passed
        match api_key:
            case ApiKey.FETCH:
                return passed._replace(check=FetchedTopics(api_key, head.api_version, topics.__contains__))
            case ApiKey.SHARE_FETCH:
                topics_of_session = self._judge.share_topics
                return passed._replace(check=FetchedTopics(api_key, head.api_version, topics_of_session.__contains__))
            case _:
                return passed

    def passes_unchanged(self, produced: OnePartition) -> bool:
        return self._judge.access.is_unlimited and self._inner.passes_unchanged(produced)

    def may_change_records(self, beginning: memoryview, size: int) -> bool:
        return self._inner.may_change_records(beginning, size)

    def walker(self, api_key: ApiKey, version: int, size: int) -> AnswerWalker | None:
        return self._inner.walker(api_key, version, size)

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
        return self._inner.is_changed(api_key, version, is_plain=is_plain)

    def answer(self, api_key: ApiKey, version: int, answer: memoryview) -> Sequence[Buffer]:
        return self._inner.answer(api_key, version, answer)

    def _judged(self, api_key: ApiKey, version: int, frame: memoryview, fetched: set[str | UUID]) -> memoryview | None:
        """Returns the frame of an allowed request, in which a broker finds nothing but what was judged; None for a
        request that does not pass. fetched: gets the topics of a Fetch."""
        access = self._judge.access
        frame, body = without_header_tags(api_key, version, frame)
        match api_key:
            case ApiKey.PRODUCE:
                return frame if access.is_unlimited else self._produced(version, frame, body, access)
            case ApiKey.FETCH:
                return frame if access.is_unlimited else self._fetched(version, frame, body, access, fetched)
            case ApiKey.METADATA:
                return frame  # the mesh answers it itself, and judges it then
            case _:
                request, frame = read_request(api_key, version, frame, body)
                return frame if self._judge.judgement(api_key, version, request) is None else None

    def _produced(self, version: int, frame: memoryview, body: int, access: Access) -> memoryview | None:
        asked = _Asked(access, Operation.WRITE, self._judge.topics, set())
        allowed = self._allowed(ApiKey.PRODUCE, version, frame, body, asked)
        if allowed is None and parts_of(version, frame, body).acks == 0:
            # Like a broker, which can only close the connection.
            request = read_tree(ApiKey.PRODUCE, version, Direction.REQUEST, frame[body:])
            judgement = self._judge.judgement(ApiKey.PRODUCE, version, request)
            self._on_refused(ApiKey.PRODUCE, frame, judgement.refusals if judgement is not None else ())
            raise ProtocolError("produce", "something in it is not allowed, and there is no answer to say so")
        return allowed

    def _fetched(
        self, version: int, frame: memoryview, body: int, access: Access, topics: set[str | UUID]
    ) -> memoryview | None:
        """Checks a Fetch, and removes its request for a session: without a session each Fetch of the client is judged
        as a whole."""
        asked = _Asked(access, Operation.READ, self._judge.topics, topics)
        allowed = self._allowed(ApiKey.FETCH, version, frame, body, asked)
        if allowed is None or version < _FIRST_WITH_SESSION:
            return allowed
        at = body + _IN_FRONT + (_REPLICA if version < _FIRST_WITHOUT_REPLICA else 0)
        _, epoch = _SESSION.unpack_from(allowed, at)
        if epoch > 0:
            return None
        allowed[at : at + _SESSION.size] = _NO_SESSION
        return allowed

    @staticmethod
    def _allowed(api_key: ApiKey, version: int, frame: memoryview, body: int, asked: _Asked) -> memoryview | None:
        try:
            pieces = program(api_key, version, Direction.REQUEST).translate(frame, body, asked)
        except _Refused:
            return None
        return frame if pieces[0] is frame else with_length(pieces)
