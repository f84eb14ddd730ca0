"""The share sessions of one connection (KIP-932): what a ShareFetch goes on with although it does not name it.

A session at a broker delivers records of all that was named since it began. So what was allowed then is judged each
time; what was refused is asked about each time, as by brokers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from mesh.routing.guards.asking import TopicNames
from mesh.security.rules import Access, Operation, ResourceType
from mesh.wire.trees import Tree

_FIRST: Final = 0
_LAST: Final = -1
"""Epochs: of the request that begins a session, and of the one that ends it."""
MOST_SESSIONS: Final = 100
"""Of one connection; the oldest is forgotten, and its client begins another one."""


@dataclass(slots=True)
class _Session:
    """allowed: by their ids, topics that the broker knows of. refused: elements of requests."""

    allowed: set[UUID] = field(default_factory=set)
    refused: dict[UUID, Tree] = field(default_factory=dict)


class ShareSessions:
    """It may be told of the same request twice."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], _Session] = {}

    def fetched(self, request: Tree, access: Access, topics: TopicNames) -> Tree | None:
        """The request with all that is to be judged again. None: its client has to begin a session anew."""
        key, epoch = (request["group_id"], request["member_id"] or ""), request["share_session_epoch"]
        if epoch == _LAST:
            self._sessions.pop(key, None)
            return request
        if epoch == _FIRST:
            self._begin(key)
        session = self._sessions.get(key)
        if session is None or not all(_may_read(each, access, topics) for each in session.allowed):
            self._sessions.pop(key, None)
            return None
        for forgotten in request["forgotten_topics_data"] or ():
            session.refused.pop(forgotten["topic_id"], None)
        asked = {each["topic_id"]: each for each in request["topics"]}
        again = [each for topic_id, each in session.refused.items() if topic_id not in asked]
        self._note(session, [*asked.values(), *again], access, topics)
        return {**request, "topics": [*request["topics"], *again]} if again else request

    def _begin(self, key: tuple[str, str]) -> None:
        self._sessions.pop(key, None)
        if len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[key] = _Session()

    @staticmethod
    def _note(session: _Session, asked: Iterable[Tree], access: Access, topics: TopicNames) -> None:
        for each in asked:
            topic_id = each["topic_id"]
            if topics.topic_name(topic_id) is None:
                continue  # it is answered, and kept by nobody
            if _may_read(topic_id, access, topics):
                session.allowed.add(topic_id)
                session.refused.pop(topic_id, None)
            else:
                partitions = [{"partition_index": one["partition_index"]} for one in each["partitions"]]
                session.refused[topic_id] = {"topic_id": topic_id, "partitions": partitions}


def _may_read(topic_id: UUID, access: Access, topics: TopicNames) -> bool:
    name = topics.topic_name(topic_id)
    return name is not None and access.allows(Operation.READ, ResourceType.TOPIC, name)
