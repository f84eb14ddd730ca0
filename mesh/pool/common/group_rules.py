"""Which groups a virtual cluster admits, and how each of them acknowledges."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import Acknowledge
from mesh.wire.errors import ErrorCode

GROUP_LESS = GroupId("kafka-mesh")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    """Which groups a virtual cluster admits, and how they acknowledge. admitted: patterns of group ids; group_less: the
    group of consumers without one, None to refuse them; acknowledge: (pattern, mode), tried in order before the
    built-in rule."""

    admitted: tuple[str, ...] = ("*",)
    maximum: int = 100
    group_less: GroupId | None = GROUP_LESS
    acknowledge: tuple[tuple[str, Acknowledge], ...] = ()

    def refusal(self, group: str) -> ErrorCode:
        """Why consumers may not use a group, NONE if they may. That of the group-less may be named like any other."""
        if not group:
            return ErrorCode.INVALID_GROUP_ID
        admitted = group == self.group_less or any(fnmatch.fnmatchcase(group, pattern) for pattern in self.admitted)
        return ErrorCode.NONE if admitted else ErrorCode.GROUP_AUTHORIZATION_FAILED

    def mode(self, group: str) -> Acknowledge:
        """Tools that never commit settle by receipt; everybody else by commits."""
        for pattern, mode in self.acknowledge:
            if fnmatch.fnmatchcase(group, pattern):
                return mode
        receipt = group == self.group_less or fnmatch.fnmatchcase(group, "console-consumer-*")
        return Acknowledge.RECEIPT if receipt else Acknowledge.COMMIT
