"""IncrementalAlterConfigs: v0-v1

Behaviour:
* Sets and deletes configurations of groups (resource type 32) that share groups have (mesh.pool.common.group_configs).
  They are kept in the store, so a virtual cluster without `store` answers INVALID_REQUEST. While the store is
  unavailable or not read yet, the answer is COORDINATOR_NOT_AVAILABLE.
* Makes all changes of a group, or none. A name or value that is not allowed gets INVALID_CONFIG. APPEND or SUBTRACT for
  anything but a list, a resource that is named twice, or one of another type gets INVALID_REQUEST.
* validate_only: gives the same answer, and changes nothing.

Version notes:
* v1: flexible (KIP-482).

Ignored: nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

from mesh.apis.answers import Answer
from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.group_configs import refusal
from mesh.pool.apis.tools import MOST_GROUPS, notice
from mesh.pool.common.effects import ChangeGroupConfigs, Effect
from mesh.pool.common.group_configs import Changes, InvalidGroupConfig, check
from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import GroupConfigsChanged
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Outcome: TypeAlias = tuple[ErrorCode, str]
_DONE: Outcome = ErrorCode.NONE, ""


class ConfigOperation(IntEnum):
    """Kafka's AlterConfigOp.OpType, without APPEND and SUBTRACT. Those are for lists, and no configuration here is a
    list."""

    SET = 0
    DELETE = 1


def handle(context: PoolContext, request: IncrementalAlterConfigsRequest) -> Sequence[Effect]:
    notice(context)
    changes = {
        GroupId(each.resource_name): _changes(each)
        for each, (error, _) in zip(request.resources, _checked(context, request), strict=True)
        if error is ErrorCode.NONE
    }
    if not changes or request.validate_only:
        return [Answer(context.ticket, GroupConfigsChanged(dict.fromkeys(changes, _DONE)))]
    return [ChangeGroupConfigs(context.ticket, changes)]


def respond(
    context: PoolContext, request: IncrementalAlterConfigsRequest, result: GroupConfigsChanged
) -> IncrementalAlterConfigsResponse:
    outcomes = (
        (each, outcome if outcome[0] is not ErrorCode.NONE else result.outcomes[GroupId(each.resource_name)])
        for each, outcome in zip(request.resources, _checked(context, request), strict=True)
    )
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=message or None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each, (error, message) in outcomes
        )
    )


def _checked(context: PoolContext, request: IncrementalAlterConfigsRequest) -> list[Outcome]:
    """Checks each resource, without regard to current values."""
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    twice = {name for name, count in counts.items() if count > 1}
    return [
        (ErrorCode.INVALID_REQUEST, "a resource may be named once")
        if (each.resource_type, each.resource_name) in twice
        else (ErrorCode.INVALID_REQUEST, f"more than {MOST_GROUPS} groups in one request")
        if index >= MOST_GROUPS
        else _check(context, each)
        for index, each in enumerate(request.resources)
    ]


def _check(context: PoolContext, resource: AlterConfigsResource) -> Outcome:
    error, message = refusal(context, resource.resource_type, resource.resource_name)
    if error is not ErrorCode.NONE:
        return error, message
    names = Counter(each.name for each in resource.configs)
    for each in resource.configs:
        if names[each.name] > 1:
            return ErrorCode.INVALID_REQUEST, f"{each.name} is named twice"
        if each.config_operation not in tuple(ConfigOperation):
            return ErrorCode.INVALID_REQUEST, f"{each.name} is no list: it can be set (0) or deleted (1)"
        if each.config_operation == ConfigOperation.SET and each.value is None:
            return ErrorCode.INVALID_REQUEST, f"{each.name} is to be set, and has no value"
    try:
        check(_changes(resource), context.core.configured_share_settings)
    except InvalidGroupConfig as problem:
        return ErrorCode.INVALID_CONFIG, str(problem)
    return _DONE


def _changes(resource: AlterConfigsResource) -> Changes:
    return {
        each.name: each.value if each.config_operation == ConfigOperation.SET else None for each in resource.configs
    }


API = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, APIS[ApiKey.INCREMENTAL_ALTER_CONFIGS], handle, respond)
