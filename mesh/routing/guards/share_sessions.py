"""The share sessions of one connection (KIP-932). A ShareFetch in a session does not name the partitions that it
continues with.

A broker delivers records of all partitions that were named since the session began. So the permissions for allowed
topics are checked again for each request. Refused topics are added to each request again. Each answer refuses them, as
a broker does, until they are allowed. Then the completed request adds them to the broker's session.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping
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
MOST_REFUSED: Final = 10_000
"""The most refused partitions in all sessions of one connection, each of which every answer of its session names again.
Above it the oldest sessions are forgotten, too."""


@dataclass(slots=True)
class _Session:
    """A share session under rules. allowed: ids of the topics that the broker has in its session. refused: the numbers
    of the requested partitions of refused topics, by topic id. epoch: of the last request. granted: what was refused
    before that request, and is allowed in it."""

    allowed: set[UUID] = field(default_factory=set)
    refused: dict[UUID, array[int]] = field(default_factory=dict)
    epoch: int = _FIRST
    granted: dict[UUID, array[int]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of partitions that it keeps."""
        return sum(map(len, self.refused.values())) + sum(map(len, self.granted.values()))


class ShareSessionTopics:
    """The topics in the share sessions of one connection. The same request may come twice."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], _Session] = {}
        self.topics: Collection[UUID] = ()
        """The ids of the topics that the answer to the last request may have. A topic that its session has forgotten
        stays, since a request may forget and acknowledge at once."""

    def fetched(self, request: Tree, access: Access, topics: TopicIdNames) -> Tree | None:
        """Adds the refused topics of its session to a ShareFetch, and those that are allowed since. None: the client
        must open a new session. The client may READ the group."""
        key, epoch = (request["group_id"] or "", request["member_id"] or ""), request["share_session_epoch"]
        if epoch == _LAST:
            ended = self._sessions.pop(key, None)
            self.topics = _numbers(request["topics"]).keys() | (set() if ended is None else ended.allowed)
            return request
        if epoch == _FIRST:
            self._begin(key)
        session = self._sessions.get(key)
        if session is None or not all(_may_read(each, access, topics) for each in session.allowed):
            self._sessions.pop(key, None)
            return None
        if epoch != session.epoch:
            session.epoch, session.granted = epoch, {}
        _forget(session, request["forgotten_topics_data"] or ())
        asked = _numbers(request["topics"])
        _note(session, asked, access, topics)
        self.topics = session.allowed
        again = _elements({**session.refused, **session.granted}, asked)
        self._bound(key)
        return {**request, "topics": [*request["topics"], *again]} if again else request

    def _begin(self, key: tuple[str, str]) -> None:
        self._sessions.pop(key, None)
        if len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[key] = _Session()

    def _bound(self, newest: tuple[str, str]) -> None:
        """Forgets the oldest sessions while all sessions keep too many partitions. newest: the session of the current
        request, which is forgotten last."""
        size = sum(each.size for each in self._sessions.values())
        for key in [*(each for each in self._sessions if each != newest), newest]:
            if size <= MOST_REFUSED:
                return
            size -= self._sessions.pop(key).size


def _numbers(elements: Iterable[Tree]) -> dict[UUID, set[int]]:
    """Returns the numbers of the partitions in a request, by topic id."""
    numbers: dict[UUID, set[int]] = {}
    for each in elements:
        numbers.setdefault(each["topic_id"], set()).update(one["partition_index"] for one in each["partitions"])
    return numbers


def _forget(session: _Session, forgotten: Iterable[Tree]) -> None:
    for each in forgotten:
        topic_id = each["topic_id"]
        for kept in (session.refused, session.granted):
            if topic_id in kept:
                _keep(kept, topic_id, set(kept[topic_id]).difference(each["partitions"]))


def _note(session: _Session, asked: Mapping[UUID, Collection[int]], access: Access, topics: TopicIdNames) -> None:
    for topic_id, numbers in asked.items():
        if topics.topic_name(topic_id) is None:
            continue  # an unknown topic is answered, but not added to the session
        if _may_read(topic_id, access, topics):
            session.allowed.add(topic_id)
        else:
            _keep(session.refused, topic_id, {*session.refused.get(topic_id, ()), *numbers})
    for topic_id in [each for each in session.refused if _may_read(each, access, topics)]:
        session.allowed.add(topic_id)
        session.granted[topic_id] = session.refused.pop(topic_id)


def _keep(kept: dict[UUID, array[int]], topic_id: UUID, numbers: Collection[int]) -> None:
    if numbers:
        kept[topic_id] = array("i", sorted(numbers))
    else:
        kept.pop(topic_id, None)


def _elements(kept: Mapping[UUID, Iterable[int]], asked: Mapping[UUID, Collection[int]]) -> list[Tree]:
    """Returns the elements of a request for partitions that it does not name. asked: those that it names."""
    elements = []
    for topic_id, numbers in kept.items():
        named = asked.get(topic_id, ())
        if partitions := [{"partition_index": each} for each in numbers if each not in named]:
            elements.append({"topic_id": topic_id, "partitions": partitions})
    return elements


def _may_read(topic_id: UUID, access: Access, topics: TopicIdNames) -> bool:
    name = topics.topic_name(topic_id)
    return name is not None and access.allows(Operation.READ, ResourceType.TOPIC, name)
