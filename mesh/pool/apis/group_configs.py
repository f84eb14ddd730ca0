"""Shared by the handlers of configurations: checks whether a resource can have a configuration here."""

from __future__ import annotations

from typing import Final

from mesh.pool.apis.context import PoolContext
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import GROUP_RESOURCE

ONLY_GROUPS: Final = "the configurations of a pool are those of groups (resource type 32)"
LOADING: Final = "the configurations of groups are being read from the store"


def refusal(context: PoolContext, resource_type: int, name: str) -> tuple[ErrorCode, str]:
    """Returns the error and message for a resource that cannot have a configuration here; NONE if it can."""
    if resource_type != GROUP_RESOURCE:
        return ErrorCode.INVALID_REQUEST, ONLY_GROUPS
    if not name:
        return ErrorCode.INVALID_REQUEST, "the name of the group is empty"
    if (error := context.core.rules.refusal(name)) is not ErrorCode.NONE:
        return error, "the group is not admitted here"
    return ErrorCode.NONE, ""
