"""OffsetDelete: v0-v0

Behaviour:
* Refused: UNSUPPORTED_VERSION, and NON_EMPTY_GROUP for a group that has a pool here. librdkafka, through which the
  upstream clusters are reached, cannot ask for it. Delete offsets at the upstream cluster, or the whole group here.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import notice, refusal
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import OffsetDeleteRequest, OffsetDeleteResponse


def handle(context: PoolContext, request: OffsetDeleteRequest) -> Sequence[Effect]:
    notice(context)
    error = refusal(context, request.group_id)
    if error is ErrorCode.NONE:
        has_pool = GroupId(request.group_id) in context.core.pools
        error = ErrorCode.NON_EMPTY_GROUP if has_pool else ErrorCode.UNSUPPORTED_VERSION
    return context.answer(OffsetDeleteResponse(error_code=error))


API = Api(ApiKey.OFFSET_DELETE, APIS[ApiKey.OFFSET_DELETE], handle, as_it_is)
