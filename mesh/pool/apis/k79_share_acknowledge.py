"""ShareAcknowledge: v1-v2

Behaviour:
* A share member (KIP-932) accepts, releases or rejects offsets that it has acquired, or reports that they have no
  record. For each partition all acknowledgements are accepted, or none. The answer waits like that of ShareFetch. Both
  use the same session and its epochs: epoch 0 gets INVALID_SHARE_SESSION_EPOCH, and -1 ends the session.
* Ranges that overlap, are not ascending, or have a wrong number of types or an unknown type get INVALID_REQUEST. Those
  below the committed offset get NONE, without effect.

Version notes:
* v2: renewed locks (KIP-1222), in a request with the flag; INVALID_RECORD_STATE if the configuration forbids them.

Ignored: nothing. The leader in the answer is always -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.share_members import acknowledgements_of, is_member_id, may_read
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.share.requests import ShareAcknowledgeResult, SharedRequest
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    ShareAcknowledgePartitionResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(context: PoolContext, request: ShareAcknowledgeRequest) -> Sequence[Effect]:
    if not is_member_id(request.member_id):
        return context.answer(ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST))
    asked = SharedRequest(
        epoch=request.share_session_epoch,
        acknowledgements=acknowledgements_of(request.topics),
        may_renew=request.is_renew_ack,
        may_read=partial(may_read, context),
    )
    group, member_id = GroupId(request.group_id or ""), MemberId(request.member_id or "")
    return context.core.shares.acknowledge(context.connection, context.ticket, group, member_id, asked, context.now)


def respond(
    context: PoolContext, request: ShareAcknowledgeRequest, result: ShareAcknowledgeResult | ShareAcknowledgeResponse
) -> ShareAcknowledgeResponse:
    if isinstance(result, ShareAcknowledgeResponse):
        return result
    return ShareAcknowledgeResponse(
        error_code=result.error,
        acquisition_lock_timeout_ms=round(result.lock * 1000),
        topics=tuple(
            ShareAcknowledgeTopicResponse(
                topic_id=topic_id,
                partitions=tuple(ShareAcknowledgePartitionResponse(name.number, error) for name, error in partitions),
            )
            for topic_id, partitions in groupby(result.errors.items(), key=lambda each: each[0].topic_id)
        ),
    )


API = Api(ApiKey.SHARE_ACKNOWLEDGE, APIS[ApiKey.SHARE_ACKNOWLEDGE], handle, respond)
