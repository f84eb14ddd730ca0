"""Metadata under rules: what is asked of the clusters, and what of their answers a client is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mesh.routing.guards.answers import operations_on_cluster, with_operations_on_topic
from mesh.routing.guards.asking import Asking, TopicNames
from mesh.security.rules import Access, Operation, Refusal, ResourceType
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

_FIRST_WITH_NULL: Final = 1
"""Up to v0, no topics mean all of them."""
_CREATES: Final = "allow_auto_topic_creation"


@dataclass(frozen=True, slots=True)
class JudgedMetadata:
    """requests: what is asked instead, one after the other; there is one at least. refused: topics of the answer."""

    requests: tuple[Tree, ...]
    refused: tuple[Tree, ...]
    _request: Tree
    _asking: Asking
    _is_all: bool = False

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return tuple(self._asking.refusals)

    def sees(self, topic: str) -> bool:
        return self._asking.sees(ResourceType.TOPIC, topic)

    def complete(self, answers: Sequence[Tree]) -> Tree:
        """To these requests, in their order. Those to a request for all topics may be written already, unless their
        operations are asked for."""
        if self._is_all and not self._request.get("include_topic_authorized_operations"):
            return self._with_operations_on_cluster(answers[0])
        topics = [self._told(topic) for answer in answers for topic in answer["topics"]]
        if self._request.get("include_topic_authorized_operations"):
            topics = [with_operations_on_topic(self._asking, topic) for topic in topics]
        return self._with_operations_on_cluster(answers[0] | {"topics": [*topics, *self.refused]})

    def _with_operations_on_cluster(self, answer: Tree) -> Tree:
        if not self._request.get("include_cluster_authorized_operations"):
            return answer
        return answer | {"cluster_authorized_operations": operations_on_cluster(self._asking)}

    def _told(self, topic: Tree) -> Tree:
        """A topic may have an id of which nothing was known when it was asked for."""
        name, topic_id = topic["name"], topic.get("topic_id", ZERO_ID)
        if name is None or topic_id == ZERO_ID or self.sees(name):
            return topic
        return _refused(None) | {"topic_id": topic_id}


def judged_metadata(request: Tree, version: int, access: Access, topics: TopicNames) -> JudgedMetadata:
    asking = Asking(access, topics)
    asked = request["topics"]
    if asked is None or (not asked and version < _FIRST_WITH_NULL):
        return JudgedMetadata((request,), (), request, asking, True)
    kept: list[Tree] = []
    existing: list[Tree] = []
    refused: list[Tree] = []
    for topic in asked:
        name, topic_id = topic["name"], topic.get("topic_id", ZERO_ID)
        known = topics.topic_name(topic_id) if name is None else name
        if known is not None and asking.refusal(Operation.DESCRIBE, ResourceType.TOPIC, known) is not None:
            refused.append(_refused(name) | ({"topic_id": topic_id} if name is None else {}))
        elif name is None or not request.get(_CREATES, True) or _may_create(asking, name):
            kept.append(topic)
        else:
            existing.append(topic)
    requests = []
    if existing:
        requests.append({**request, "topics": existing, _CREATES: False})
    if kept or not existing:
        requests.append({**request, "topics": kept})
    return JudgedMetadata(tuple(requests), tuple(refused), request, asking)


def _may_create(asking: Asking, name: str) -> bool:
    """Whether clusters may make it when they are asked for it. That they may not is no refusal: it may be there."""
    return asking.may_in_cluster(Operation.CREATE) or asking.access.allows(Operation.CREATE, ResourceType.TOPIC, name)


def _refused(name: str | None) -> Tree:
    code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return {"error_code": code, "name": name, "topic_id": ZERO_ID, "partitions": []}
