"""The share sessions of one connection (KIP-932). A ShareFetch in a session does not name the partitions that it
continues with.

A broker delivers records of all partitions that were named since the session began. So the permissions for allowed
topics are checked again for each request. Refused topics are added to each request again, so that each answer refuses
them, as a broker does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from mesh.routing.guards.authorization import TopicIdNames
from mesh.security.rules import Access, Operation, ResourceType
from mesh.wire.trees import Tree

_FIRST: Final = 0
_LAST: Final = -1
"""Session epochs of the request that opens a share session, and of the one that ends it."""
MOST_SESSIONS: Final = 100
"""The most sessions of one connection. Above it the oldest session is forgotten, and its client has to open a new
one."""


@dataclass(slots=True)
class _Session:
    """A share session under rules. allowed: ids of the topics that the broker has in its session. refused: the
    requested elements of refused topics, by topic id."""

    allowed: set[UUID] = field(default_factory=set)
    refused: dict[UUID, Tree] = field(default_factory=dict)


class ShareSessionTopics:
    """The topics in the share sessions of one connection. The same request may come twice."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], _Session] = {}

    def fetched(self, request: Tree, access: Access, topics: TopicIdNames) -> Tree | None:
        """Adds the refused topics of its session to a ShareFetch. None: the client must open a new session."""
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
    def _note(session: _Session, asked: Iterable[Tree], access: Access, topics: TopicIdNames) -> None:
        for each in asked:
            topic_id = each["topic_id"]
            if topics.topic_name(topic_id) is None:
                continue  # an unknown topic is answered, but not added to the session
            if _may_read(topic_id, access, topics):
                session.allowed.add(topic_id)
                session.refused.pop(topic_id, None)
            else:
                partitions = [{"partition_index": one["partition_index"]} for one in each["partitions"]]
                session.refused[topic_id] = {"topic_id": topic_id, "partitions": partitions}


def _may_read(topic_id: UUID, access: Access, topics: TopicIdNames) -> bool:
    name = topics.topic_name(topic_id)
    return name is not None and access.allows(Operation.READ, ResourceType.TOPIC, name)
