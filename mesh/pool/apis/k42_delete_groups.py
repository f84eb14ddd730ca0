"""DeleteGroups: v0-v2

Behaviour:
* A group with a pool here gets NON_EMPTY_GROUP. Any other is deleted on every upstream cluster, with all its offsets,
  including those of topics that are hidden here. If a cluster refuses (members there, its rules), the answer has its
  error.
* A group that no cluster knows gets GROUP_ID_NOT_FOUND.
* The store's documents of a group are deleted, too. While the store is being read every group gets
  COORDINATOR_LOAD_IN_PROGRESS, and nothing is deleted.

Version notes:
* v2: flexible (KIP-482).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.answers import Answer
from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import MOST_GROUPS, notice, refusal
from mesh.pool.common import queries as questions
from mesh.pool.common.effects import AskUpstream, Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import GroupsDeleted
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(context: PoolContext, request: DeleteGroupsRequest) -> Sequence[Effect]:
    notice(context)
    groups = tuple(GroupId(name) for name in dict.fromkeys(request.groups_names) if not _refusal(context, name))
    if not groups:
        return [Answer(context.ticket, GroupsDeleted({}))]
    if context.core.kept_share_groups.is_loading:
        return [Answer(context.ticket, GroupsDeleted(dict.fromkeys(groups, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))]
    return [AskUpstream(context.ticket, questions.DeleteGroups(groups[:MOST_GROUPS]))]


def respond(context: PoolContext, request: DeleteGroupsRequest, result: GroupsDeleted) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=name, error_code=_error(context, name, result))
            for name in request.groups_names
        )
    )


def _refusal(context: PoolContext, name: str) -> ErrorCode:
    if (error := refusal(context, name)) is not ErrorCode.NONE:
        return error
    return ErrorCode.NON_EMPTY_GROUP if GroupId(name) in context.core.pools else ErrorCode.NONE


def _error(context: PoolContext, name: str, result: GroupsDeleted) -> ErrorCode:
    done = result.errors.get(GroupId(name))
    return done if done is not None else _refusal(context, name) or ErrorCode.INVALID_REQUEST


API = Api(ApiKey.DELETE_GROUPS, APIS[ApiKey.DELETE_GROUPS], handle, respond)
