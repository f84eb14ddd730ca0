"""Members of classic groups that join and leave directly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.relay.sides import Side

_NEEDS_AN_ID = 79

SUBSCRIPTION = b"\0\0\0\0\0\1\0\3any\xff\xff\xff\xff"
ASSIGNMENT = b"\0\0\0\0\0\0\xff\xff\xff\xff"
JOINING: Mapping[str, Any] = {
    "session_timeout": 45_000,
    "rebalance_timeout": 60_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": SUBSCRIPTION}, {"name": "sticky", "metadata": b"\1\2\3"}],
}
"""All fields except the group and the member."""


def joined(side: Side, group: str) -> Any:
    """The answer to the only member of a group, which has yet to synchronize."""
    first = side.prepare("join_group", 5, group_id=group, **JOINING)
    assert first.error_code.value == _NEEDS_AN_ID
    return side.prepare_until("join_group", 5, group_id=group, member_id=first.member_id, **JOINING)


def stable(side: Side, group: str) -> Any:
    """The same, after it got an assignment."""
    member = joined(side, group)
    assignments = [{"member_id": member.member_id, "assignment": ASSIGNMENT}]
    side.prepare_until("sync_group", 3, group_id=group, **who(member), assignments=assignments)
    return member


def leave(side: Side, group: str, member_id: str) -> None:
    """Leaves the group. Else the coordinator would remove the member while others look at the list of groups."""
    side.prepare("leave_group", 3, group_id=group, members=[{"member_id": member_id}])


def who(member: Any) -> Mapping[str, Any]:
    """The member's own identification, from an answer to JoinGroup."""
    return {"generation_id": member.generation_id, "member_id": member.member_id}
