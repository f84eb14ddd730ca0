"""Fetch: v4-v17

Behaviour:
* A Fetch is parked until it has min_bytes (1 MiB at most), max_wait_ms is over, it can take no more records, or another
  request is queued behind it.
* The answer has every partition of the request. Records are empty where there are none, never null.
* The offset identifies the member (mesh/pool/identity/connections.py). Records have virtual offsets.
* The high watermark and the last stable offset are the last offset + 1 if there are records, else the requested offset,
  and -1 with an error. Without records it is one more while this member has not received other known records (a
  backlog, an upstream log that was not read to its end), or while there may be some (a partition that is not assigned
  yet). librdkafka takes a high watermark at its position for the end of the log; otherwise it ignores records and
  errors.
* An offset below the window is served from the window's start. A negative offset is below every window.
* There are no fetch sessions (KIP-227): the answer has session_id 0. A request that continues a session does not name
  all its partitions, and is refused with FETCH_SESSION_ID_NOT_FOUND.

Version notes:
* v12: flexible (KIP-482), epochs of diverging logs (KIP-595) - not applicable, this log never diverges.
* v13: topics by id (KIP-516). An unknown id is answered with UNKNOWN_TOPIC_ID.
* v15: replica state (KIP-903) - ignored. v16: node endpoints (KIP-951) - none given. v17: directory id - ignored.

Ignored: isolation_level (records are read with the pool's own), current_leader_epoch, rack_id, forgotten topics.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.pool.state.fetch import FetchParameters, FetchResult, RequestedPartition
from mesh.records.spans import TopicName
from mesh.wire import messages
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode

LONGEST_WAIT = 30.0
"""The most seconds that a Fetch waits. No client asks for more than 10."""
LARGEST_MINIMUM = 1 << 20
"""The largest min_bytes. A parked Fetch that asks for more is answered at this size."""
LARGEST_ANSWER = 16 << 20
"""The largest max_bytes. A client that asks for more gets this many."""
FULL_FETCH = (-1, 0)
"""The epochs of a request that names all its partitions: without a session, or to open a session."""


def handle(context: PoolContext, request: messages.FetchRequest) -> Sequence[Effect]:
    if request.session_epoch not in FULL_FETCH:
        return context.answer(messages.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    partitions = [
        RequestedPartition(name, asked.partition, max(asked.fetch_offset, 0), asked.partition_max_bytes)
        for topic in request.topics
        for name in [_name(context, topic)]
        for asked in topic.partitions
    ]
    pool_request = FetchParameters(
        partitions,
        min(max(request.min_bytes, 0), LARGEST_MINIMUM),
        min(max(request.max_bytes, 0), LARGEST_ANSWER),
        min(max(request.max_wait_ms, 0) / 1000, LONGEST_WAIT),
    )
    return context.core.fetch(context.connection, context.client_id, context.ticket, pool_request, context.now)


def respond(
    context: PoolContext, request: messages.FetchRequest, result: FetchResult | messages.FetchResponse
) -> messages.FetchResponse:
    if isinstance(result, messages.FetchResponse):
        return result
    if result.delivered is not None:
        return _response(request, result)
    known = context.empty_answer
    if known.response is None or known.request is not request or known.partitions != result.partitions:
        known.request, known.partitions, known.response = request, result.partitions, _response(request, result)
    assert isinstance(known.response, messages.FetchResponse)
    return known.response


def _response(request: messages.FetchRequest, result: FetchResult) -> messages.FetchResponse:
    fetched = iter(result.partitions)
    topics = tuple(
        messages.FetchTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                messages.FetchPartitionResponse(
                    asked.partition, error, high_watermark, high_watermark, 0 if high_watermark >= 0 else -1, records
                )
                for asked, (error, high_watermark, records) in zip(topic.partitions, fetched, strict=False)
            ),
        )
        for topic in request.topics
    )
    return messages.FetchResponse(topics=topics)


def _name(context: PoolContext, topic: messages.FetchTopic) -> TopicName | None:
    if topic.name is not None:
        return TopicName(topic.name)
    return context.core.topics.name_of(topic.topic_id) if topic.topic_id is not None else None


API = Api(ApiKey.FETCH, APIS[ApiKey.FETCH], handle, respond)
