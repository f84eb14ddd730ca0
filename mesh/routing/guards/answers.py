"""Adapts answers to one client: removes the entities that the client may not see, and adds its allowed operations
(KIP-430)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from mesh.routing.guards.authorization import RequestAuthorization
from mesh.security.rules import CLUSTER_NAME, Operation, ResourceType
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

Answer: TypeAlias = Callable[[RequestAuthorization, Tree, Tree], Tree]
"""Makes the answer for one client from the client's request and the answer that is the same for all clients."""

_HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."
_OMITTED: Final = -(2**31)
"""The value of authorized operations that the client did not ask for."""
_NONE: Final = ErrorCode.NONE


def listed_groups(authorization: RequestAuthorization, request: Tree, answer: Tree) -> Tree:
    if authorization.allows_on_cluster(Operation.DESCRIBE):
        return answer
    return _of_those_seen(authorization, answer, "groups", ResourceType.GROUP, "group_id")


def listed_transactions(authorization: RequestAuthorization, request: Tree, answer: Tree) -> Tree:
    return _of_those_seen(
        authorization, answer, "transaction_states", ResourceType.TRANSACTIONAL_ID, "transactional_id"
    )


def described_transactions(authorization: RequestAuthorization, request: Tree, answer: Tree) -> Tree:
    """Leaves out the topics of described transactions that the client may not see."""
    states = [
        _of_those_seen(authorization, state, "topics", ResourceType.TOPIC, "topic") if state.get("topics") else state
        for state in answer["transaction_states"]
    ]
    return answer | {"transaction_states": states}


def _of_those_seen(
    authorization: RequestAuthorization, tree: Tree, array: str, resource_type: ResourceType, key: str
) -> Tree:
    return tree | {array: [each for each in tree[array] if authorization.sees(resource_type, each[key])]}


def fetched_offsets(authorization: RequestAuthorization, request: Tree, answer: Tree) -> Tree:
    """Leaves out topics that the client may not see, where a request asks for all topics."""
    if "groups" not in request:
        return _without_hidden_topics(authorization, answer) if request["topics"] is None else answer
    of_all = {group["group_id"] for group in request["groups"] if group["topics"] is None}
    groups = [
        _without_hidden_topics(authorization, group) if group["group_id"] in of_all else group
        for group in answer["groups"]
    ]
    return answer | {"groups": groups}


def _without_hidden_topics(authorization: RequestAuthorization, tree: Tree) -> Tree:
    return tree | {"topics": [each for each in tree.get("topics") or () if _sees_topic(authorization, each)]}


def _sees_topic(authorization: RequestAuthorization, topic: Tree) -> bool:
    """Returns True if the client may see a topic, which the answer names by its name or id."""
    name = topic.get("name") or topic.get("topic_name")
    if name is None and topic.get("topic_id", ZERO_ID) != ZERO_ID:
        name = authorization.topics.topic_name(topic["topic_id"])
    return name is not None and authorization.sees(ResourceType.TOPIC, name)


def described_groups(authorization: RequestAuthorization, request: Tree, answer: Tree) -> Tree:
    """Replaces the description of a group by an error if the client may not see one of the group's topics."""
    groups = []
    for group in answer["groups"]:
        names = dict.fromkeys(_topics_of(group)) if group["error_code"] == _NONE else ()
        if any([authorization.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names]):
            refused = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            group = {"group_id": group["group_id"], "error_code": refused, "error_message": _HIDDEN}
        groups.append(_with_operations(authorization, request, group))
    return answer | {"groups": groups}


def described_classic_groups(authorization: RequestAuthorization, request: Tree, answer: Tree) -> Tree:
    return answer | {"groups": [_with_operations(authorization, request, group) for group in answer["groups"]]}


def _with_operations(authorization: RequestAuthorization, request: Tree, group: Tree) -> Tree:
    if not request.get("include_authorized_operations") or group["error_code"] != _NONE:
        return group
    return group | {"authorized_operations": authorization.access.operations(ResourceType.GROUP, group["group_id"])}


def _topics_of(group: Tree) -> Iterator[str]:
    """Yields the topics of a group of the consumer, share or streams protocol: those of its members, and of its
    topology."""
    for member in group.get("members") or ():
        for key in ("assignment", "target_assignment"):
            assigned = (member.get(key) or {}).get("topic_partitions") or ()
            yield from (each["topic_name"] for each in assigned)
    for part in (group.get("topology") or {}).get("subtopologies") or ():
        for key in ("source_topics", "repartition_sink_topics"):
            yield from part.get(key) or ()
        for key in ("repartition_source_topics", "state_changelog_topics"):
            yield from (each["name"] for each in part.get(key) or ())


def described_cluster(authorization: RequestAuthorization, request: Tree, answer: Tree) -> Tree:
    is_asked = request.get("include_cluster_authorized_operations")
    if not is_asked or answer.get("error_code", 0) != _NONE:
        return answer
    return answer | {"cluster_authorized_operations": operations_on_cluster(authorization)}


def operations_on_cluster(authorization: RequestAuthorization) -> int:
    if not authorization.allows_on_cluster(Operation.DESCRIBE):
        return 0
    return authorization.access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def created_topics(authorization: RequestAuthorization, request: Tree, answer: Tree) -> Tree:
    """Hides the configuration, partition count and replication factor of a created topic from a client that may not
    describe configurations."""

    def told(topic: Tree) -> Tree:
        if topic["error_code"] != _NONE or "configs" not in topic:
            return topic
        if authorization.access.allows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic["name"]):
            return topic
        unknown: dict[str, Any] = {"configs": [], "num_partitions": -1, "replication_factor": -1}
        return topic | unknown | {"topic_config_error_code": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}

    return answer | {"topics": [told(topic) for topic in answer["topics"]]}


def described_topics(authorization: RequestAuthorization, request: Tree, answer: Tree) -> Tree:
    return answer | {"topics": [with_operations_on_topic(authorization, topic) for topic in answer["topics"]]}


def with_operations_on_topic(authorization: RequestAuthorization, topic: Tree) -> Tree:
    if topic["name"] is None or topic["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return topic | {"topic_authorized_operations": _OMITTED}
    return topic | {"topic_authorized_operations": authorization.access.operations(ResourceType.TOPIC, topic["name"])}
