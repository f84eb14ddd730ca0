"""The rules of a virtual cluster for groups: which groups it admits, and how their members acknowledge."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import Acknowledge
from mesh.wire.errors import ErrorCode

GROUP_LESS = GroupId("kafka-mesh")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    """The rules of a virtual cluster for groups.

    * admitted: patterns of the group ids that it admits.
    * maximum: the most pools.
    * group_less: the group for consumers without a group; None to refuse such consumers.
    * acknowledge: (pattern, mode), tried in order before the built-in rule.
    """

    admitted: tuple[str, ...] = ("*",)
    maximum: int = 100
    group_less: GroupId | None = GROUP_LESS
    acknowledge: tuple[tuple[str, Acknowledge], ...] = ()

    def refusal(self, group: str) -> ErrorCode:
        """Returns the error with which consumers may not use a group; NONE if they may. A consumer may also name
        `group_less`."""
        if not group:
            return ErrorCode.INVALID_GROUP_ID
        admitted = group == self.group_less or any(fnmatch.fnmatchcase(group, pattern) for pattern in self.admitted)
        return ErrorCode.NONE if admitted else ErrorCode.GROUP_AUTHORIZATION_FAILED

    def mode(self, group: str) -> Acknowledge:
        """Returns how members of a group acknowledge. By default tools that never commit settle by receipt, and all
        others by commits."""
        for pattern, mode in self.acknowledge:
            if fnmatch.fnmatchcase(group, pattern):
                return mode
        receipt = group == self.group_less or fnmatch.fnmatchcase(group, "console-consumer-*")
        return Acknowledge.RECEIPT if receipt else Acknowledge.COMMIT
