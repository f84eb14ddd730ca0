"""OffsetCommit over several clusters: fenced where the members are, then stored without membership where the topics
are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

NO_GENERATION: Final = -1
_OF_PARTITIONS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        28,  # INVALID_COMMIT_OFFSET_SIZE
    }
)
"""Errors of a commit that say nothing about its member."""
_NOT_THERE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


def has_member(request: Tree) -> bool:
    """Whether an OffsetCommit is one of a member. Tools, and consumers without subscriptions, are none."""
    return bool(request["member_id"]) or request["generation_id_or_member_epoch"] != NO_GENERATION


def bare(request: Tree) -> Tree:
    """The same OffsetCommit of nobody: brokers take it exactly as long as the group has no members there."""
    return request | {
        "generation_id_or_member_epoch": NO_GENERATION,
        "member_id": "",
        "group_instance_id": None,
    }


def heartbeat(request: Tree) -> Tree:
    """The Heartbeat of the member that commits."""
    return {
        "group_id": request["group_id"],
        "generation_id": request["generation_id_or_member_epoch"],
        "member_id": request["member_id"],
        "group_instance_id": request.get("group_instance_id"),
    }


def partitions(tree: Tree) -> Iterator[tuple[Any, Tree]]:
    """Of a request or an answer about offsets of one group, each with what names its topic."""
    for topic in tree["topics"] or ():
        for each in topic["partitions"]:
            yield topic_key(topic), each


def topic_ids(tree: Tree) -> list[UUID]:
    """Of the topics that a request about offsets of one group names so."""
    return [each["topic_id"] for each in tree["topics"] or () if each.get("topic_id", ZERO_ID) != ZERO_ID]


def topic_key(topic: Tree) -> Any:
    """Its name, or its id."""
    id = topic.get("topic_id", ZERO_ID)
    return topic.get("name") if id == ZERO_ID else id


def refusal_at_home(answer: Tree) -> ErrorCode | int | None:
    """The error with which the home refuses a member; NONE if it takes it, None if the answer says nothing of it."""
    codes = [each["error_code"] for _, each in partitions(answer)]
    if ErrorCode.NONE in codes:
        return ErrorCode.NONE
    return next((code for code in codes if code not in _OF_PARTITIONS), None)


def refusal_of_heartbeat(code: int) -> ErrorCode | int:
    """The error with which a home refuses a member, by what its Heartbeat was answered."""
    return ErrorCode.NONE if code == ErrorCode.REBALANCE_IN_PROGRESS else code


def told_of_owner(code: int, *, is_member: bool) -> ErrorCode | int:
    """What a client is told of an error of an owner's coordinator, which it does not know of."""
    if code in _NOT_THERE or (is_member and code == ErrorCode.UNKNOWN_MEMBER_ID):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # asked again, without looking for another coordinator
    return code
