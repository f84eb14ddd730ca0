"""Metadata under rules: limits the requests to the clusters, and removes topics from the answers that the client may
not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mesh.routing.guards.answers import operations_on_cluster, with_operations_on_topic
from mesh.routing.guards.authorization import RequestAuthorization, TopicIdNames
from mesh.security.rules import Access, Operation, Refusal, ResourceType
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

_FIRST_WITH_NULL: Final = 1
"""In v0, an empty list means all topics."""
_CREATES: Final = "allow_auto_topic_creation"


@dataclass(frozen=True, slots=True)
class JudgedMetadata:
    """A judged Metadata request. requests: at least one; sent in this order instead of the original. refused: the
    answer's entries for refused topics."""

    requests: tuple[Tree, ...]
    refused: tuple[Tree, ...]
    _request: Tree
    _authorization: RequestAuthorization
    _is_all: bool = False

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return tuple(self._authorization.refusals)

    def sees(self, topic: str) -> bool:
        return self._authorization.sees(ResourceType.TOPIC, topic)

    def complete(self, answers: Sequence[Tree]) -> Tree:
        """Joins the answers to `requests`, in their order. An answer about all topics may be encoded already, unless
        the client asks for its allowed operations on topics."""
        if self._is_all and not self._request.get("include_topic_authorized_operations"):
            return self._with_operations_on_cluster(answers[0])
        topics = [self._told(topic) for answer in answers for topic in answer["topics"]]
        if self._request.get("include_topic_authorized_operations"):
            topics = [with_operations_on_topic(self._authorization, topic) for topic in topics]
        return self._with_operations_on_cluster(answers[0] | {"topics": [*topics, *self.refused]})

    def _with_operations_on_cluster(self, answer: Tree) -> Tree:
        if not self._request.get("include_cluster_authorized_operations"):
            return answer
        return answer | {"cluster_authorized_operations": operations_on_cluster(self._authorization)}

    def _told(self, topic: Tree) -> Tree:
        """Checks a topic of an answer again: its name may have been unknown when the client asked for it by id."""
        name, topic_id = topic["name"], topic.get("topic_id", ZERO_ID)
        if name is None or topic_id == ZERO_ID or self.sees(name):
            return topic
        return _refused(None) | {"topic_id": topic_id}


def judged_metadata(request: Tree, version: int, access: Access, topics: TopicIdNames) -> JudgedMetadata:
    authorization = RequestAuthorization(access, topics)
    asked = request["topics"]
    if asked is None or (not asked and version < _FIRST_WITH_NULL):
        return JudgedMetadata((request,), (), request, authorization, True)
    kept: list[Tree] = []
    existing: list[Tree] = []
    refused: list[Tree] = []
    for topic in asked:
        name, topic_id = topic["name"], topic.get("topic_id", ZERO_ID)
        known = topics.topic_name(topic_id) if name is None else name
        if known is not None and authorization.authorize(Operation.DESCRIBE, ResourceType.TOPIC, known) is not None:
            refused.append(_refused(name) | ({"topic_id": topic_id} if name is None else {}))
        elif name is None or not request.get(_CREATES, True) or _may_create(authorization, name):
            kept.append(topic)
        else:
            existing.append(topic)
    requests = []
    if existing:
        requests.append({**request, "topics": existing, _CREATES: False})
    if kept or not existing:
        requests.append({**request, "topics": kept})
    return JudgedMetadata(tuple(requests), tuple(refused), request, authorization)


def _may_create(authorization: RequestAuthorization, name: str) -> bool:
    """Returns True if the clusters may create a requested topic. If not, it is requested without being created: it may
    exist."""
    return authorization.allows_on_cluster(Operation.CREATE) or authorization.access.allows(
        Operation.CREATE, ResourceType.TOPIC, name
    )


def _refused(name: str | None) -> Tree:
    code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return {"error_code": code, "name": name, "topic_id": ZERO_ID, "partitions": []}
