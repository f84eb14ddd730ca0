"""OffsetCommit to several clusters. The group's home checks the member; the owners of the topics then store the offsets
as commits without a member."""

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
"""Errors of a commit that concern a partition, and say nothing about the member."""
_NOT_THERE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


def has_member(request: Tree) -> bool:
    """Returns True if an OffsetCommit comes from a member of the group, not from a tool or a consumer without a
    subscription."""
    return bool(request["member_id"]) or request["generation_id_or_member_epoch"] != NO_GENERATION


def without_member(request: Tree) -> Tree:
    """Returns the OffsetCommit without its member. A broker accepts such a commit only while the group has no members
    there."""
    return request | {
        "generation_id_or_member_epoch": NO_GENERATION,
        "member_id": "",
        "group_instance_id": None,
    }


def heartbeat(request: Tree) -> Tree:
    """Returns a Heartbeat of the member that sent an OffsetCommit."""
    return {
        "group_id": request["group_id"],
        "generation_id": request["generation_id_or_member_epoch"],
        "member_id": request["member_id"],
        "group_instance_id": request.get("group_instance_id"),
    }


def partitions(tree: Tree) -> Iterator[tuple[Any, Tree]]:
    """Yields the partitions of a request or an answer about offsets of one group, each with its topic's name or id."""
    for topic in tree["topics"] or ():
        for each in topic["partitions"]:
            yield topic_key(topic), each


def topic_ids(tree: Tree) -> list[UUID]:
    """Returns the topic ids in a request about offsets of one group."""
    return [each["topic_id"] for each in tree["topics"] or () if each.get("topic_id", ZERO_ID) != ZERO_ID]


def topic_key(topic: Tree) -> Any:
    """Returns the id of a topic if it has one, otherwise its name."""
    id = topic.get("topic_id", ZERO_ID)
    return topic.get("name") if id == ZERO_ID else id


def refusal_at_home(answer: Tree) -> ErrorCode | int | None:
    """Returns the error with which the home refuses a member. NONE: the home accepts it. None: the answer does not
    say."""
    codes = [each["error_code"] for _, each in partitions(answer)]
    if ErrorCode.NONE in codes:
        return ErrorCode.NONE
    return next((code for code in codes if code not in _OF_PARTITIONS), None)


def refusal_of_heartbeat(code: int) -> ErrorCode | int:
    """Returns the error with which the home refuses a member, from the error code of its Heartbeat."""
    return ErrorCode.NONE if code == ErrorCode.REBALANCE_IN_PROGRESS else code


def error_for_client(code: int, *, is_member: bool) -> ErrorCode | int:
    """Returns the error for the client, from an error of an owner's coordinator. The client does not know that
    coordinator."""
    if code in _NOT_THERE or (is_member and code == ErrorCode.UNKNOWN_MEMBER_ID):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # makes clients retry without looking for another coordinator
    return code
