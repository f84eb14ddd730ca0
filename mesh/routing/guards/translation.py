"""What passes between a client under rules and the leaf that its connection leads to: requests of which all is allowed,
and of which the answer is everybody's. Any other is answered by the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from uuid import UUID

from mesh.routing.guards.asking import TopicNames
from mesh.routing.guards.judge import Judge
from mesh.security.rules import Access, Operation, ResourceType
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side, Unchanged, program
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.produce_batches import body_of, parts_of
from mesh.wire.routed import PassedRequest, Translation
from mesh.wire.trees import read_tree

_SESSION: Final = Struct(">ii")
"""Of a Fetch: id and epoch of its session."""
_NO_SESSION: Final = _SESSION.pack(0, -1)
_FIRST_WITH_SESSION: Final = 7
_FIRST_WITHOUT_REPLICA: Final = 15
_IN_FRONT: Final = 13
"""Bytes of max_wait, min_bytes, max_bytes and isolation_level."""
_REPLICA: Final = 4


class _Refused(Exception):
    """Something in a request is not allowed, or must be looked at more closely."""


class _Asked(Unchanged):
    """The entities of a request, each judged: topics for one operation, transactions for WRITE. Raises `_Refused`."""

    __slots__ = ("_access", "_names", "_operation")

    def __init__(self, access: Access, operation: Operation, names: TopicNames) -> None:
        self._access: Final = access
        self._operation: Final = operation
        self._names: Final = names

    def node(self, node: int) -> int:
        raise _Refused  # a replica

    def topic(self, name: str) -> str:
        if not self._access.allows(self._operation, ResourceType.TOPIC, name):
            raise _Refused
        return name

    def topic_id(self, topic_id: UUID) -> UUID:
        name = self._names.topic_name(topic_id)
        if name is None:
            raise _Refused
        self.topic(name)
        return topic_id

    def transactional_id(self, transactional_id: str) -> str:
        if not self._access.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            raise _Refused
        return transactional_id


class GuardedTranslation:
    """A translation for clients under rules. Implements `mesh.wire.routed.Translation`. inner: that of a client who may
    do everything."""

    def __init__(self, inner: Translation, judge: Judge) -> None:
        self._inner: Final = inner
        self._judge: Final = judge

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        if self._passes(ApiKey(head.api_key), head.api_version, frame):
            return self._inner.request(head, frame)
        return None

    def leaf_of_nodes(self, api_key: ApiKey, version: int) -> int | None:
        return self._inner.leaf_of_nodes(api_key, version)

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
        return self._inner.is_changed(api_key, version, is_plain=is_plain)

    def answer(self, api_key: ApiKey, version: int, answer: memoryview) -> Sequence[Buffer]:
        return self._inner.answer(api_key, version, answer)

    def _passes(self, api_key: ApiKey, version: int, frame: memoryview) -> bool:
        access = self._judge.access
        body = body_of(api_key, version, frame)
        match api_key:
            case ApiKey.PRODUCE:
                return access.is_unlimited or self._produces(version, frame, body, access)
            case ApiKey.FETCH:
                return access.is_unlimited or self._fetches(version, frame, body, access)
            case ApiKey.METADATA:
                return True  # which is not passed on
            case _:
                request = read_tree(api_key, version, Side.REQUEST, frame[body:])
                return self._judge.judgement(api_key, version, request) is None

    def _produces(self, version: int, frame: memoryview, body: int, access: Access) -> bool:
        if self._are_allowed(ApiKey.PRODUCE, version, frame, body, _Asked(access, Operation.WRITE, self._judge.topics)):
            return True
        if parts_of(version, frame, body).acks == 0:  # as a broker, which has no other way to say it
            raise ProtocolError("produce", "something in it is not allowed, and there is no answer to say so")
        return False

    def _fetches(self, version: int, frame: memoryview, body: int, access: Access) -> bool:
        """Takes its session away: a client under rules has none, so that each of its requests is judged."""
        if not self._are_allowed(
            ApiKey.FETCH, version, frame, body, _Asked(access, Operation.READ, self._judge.topics)
        ):
            return False
        if version < _FIRST_WITH_SESSION:
            return True
        at = body + _IN_FRONT + (_REPLICA if version < _FIRST_WITHOUT_REPLICA else 0)
        _, epoch = _SESSION.unpack_from(frame, at)
        if epoch > 0:
            return False
        frame[at : at + _SESSION.size] = _NO_SESSION
        return True

    @staticmethod
    def _are_allowed(api_key: ApiKey, version: int, frame: memoryview, body: int, asked: _Asked) -> bool:
        try:
            program(api_key, version, Side.REQUEST).translate(frame, body, asked)
        except _Refused:
            return False
        return True
