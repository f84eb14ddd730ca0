"""ShareFetch: v1-v2

Behaviour:
* Acquires records for a share member (KIP-932), at their upstream offsets, until the member's lock expires. The answer
  has whole batches, as they are in the log; only the records in the acquired ranges are acquired.
* Acknowledgements in the request come first: for each partition all of them are accepted, or none. The answer waits up
  to 3 s until they are stored upstream. After that it has KAFKA_STORAGE_ERROR, and the member may send them again. A
  partition that moved to another process gets NOT_LEADER_OR_FOLLOWER, an offset that the member has not acquired
  INVALID_RECORD_STATE.
* Epoch 0 opens a session, and ends the member's older one. -1 ends the session, and releases the acquired records; the
  end of the connection does, too. Any epoch but the next one gets INVALID_SHARE_SESSION_EPOCH. The member need not have
  joined its group.
* If there are too many sessions, the answer is SHARE_SESSION_LIMIT_REACHED, after max_wait_ms.
* A ShareFetch is parked like a Fetch. With max_records or max_bytes of 0 it acquires nothing, and is answered at once.
* The answer leaves out partitions without news, except the first answer of a session.

Version notes:
* v2: the acquire mode (KIP-1206) and renewed locks (KIP-1222).

Ignored: nothing. The leader in the answer is always -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Final

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.k01_fetch import LARGEST_ANSWER, LARGEST_MINIMUM, LONGEST_WAIT
from mesh.pool.apis.share_members import acknowledgements_of, is_member_id, may_read
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.share import requests
from mesh.pool.share.requests import NamedPartition, ShareFetchResult
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    AcquiredRange,
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
)

WHOLE_BATCHES, RECORD_LIMIT = 0, 1
"""The acquire modes."""
MOST_RECORDS: Final = 100_000
"""A client that asks for more gets this many."""


def handle(context: PoolContext, request: ShareFetchRequest) -> Sequence[Effect]:
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
    is_mode = request.share_acquire_mode in (WHOLE_BATCHES, RECORD_LIMIT)
    if not is_member_id(request.member_id) or not is_mode or (request.is_renew_ack and any(limits)):
        return context.answer(ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST))
    asked = requests.SharedFetch(
        epoch=request.share_session_epoch,
        acknowledgements=acknowledgements_of(request.topics),
        may_renew=request.is_renew_ack,
        may_read=partial(may_read, context),
        added=[NamedPartition(topic.topic_id, each.partition) for topic in request.topics for each in topic.partitions],
        forgotten=[
            NamedPartition(topic.topic_id, number) for topic in request.forgotten_topics for number in topic.partitions
        ],
        minimum=min(max(request.min_bytes, 0), LARGEST_MINIMUM),
        maximum=min(max(request.max_bytes, 0), LARGEST_ANSWER),
        wait=min(max(request.max_wait_ms, 0) / 1000, LONGEST_WAIT),
        most_records=min(request.max_records, MOST_RECORDS),
        longest_range=max(request.batch_size, 1),
        is_exact=request.share_acquire_mode == RECORD_LIMIT,
        acquires=request.max_records > 0 and request.max_bytes > 0,
    )
    group, member_id = GroupId(request.group_id or ""), MemberId(request.member_id or "")
    return context.core.shares.fetch(
        context.connection, context.ticket, group, member_id, context.client, asked, context.now
    )


def respond(
    context: PoolContext, request: ShareFetchRequest, result: ShareFetchResult | ShareFetchResponse
) -> ShareFetchResponse:
    if isinstance(result, ShareFetchResponse):
        return result
    return ShareFetchResponse(
        error_code=result.error,
        acquisition_lock_timeout_ms=round(result.lock * 1000),
        topics=tuple(
            ShareFetchTopicResponse(
                topic_id=topic_id,
                partitions=tuple(
                    ShareFetchPartitionResponse(
                        each.partition.number,
                        each.error,
                        each.acknowledge_error,
                        each.records,
                        tuple(map(AcquiredRange._make, each.acquired)),
                    )
                    for each in partitions
                ),
            )
            for topic_id, partitions in groupby(result.partitions, key=lambda each: each.partition.topic_id)
        ),
    )


API = Api(ApiKey.SHARE_FETCH, APIS[ApiKey.SHARE_FETCH], handle, respond)
