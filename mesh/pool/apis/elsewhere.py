"""The answers of a process that stops, while its members move to another process of the same pool.

Behaviour:
* Fetch gets NOT_LEADER_OR_FOLLOWER for each partition. Clients then ask for metadata, which names the other process.
* JoinGroup, SyncGroup, Heartbeat, ConsumerGroupHeartbeat and ShareGroupHeartbeat get NOT_COORDINATOR. Clients then look
  for the coordinator, which is the other process. They join there without leaving here.
* All other APIs work as before. Metadata, FindCoordinator and DescribeCluster name the other process, since it is in
  the endpoint.

So a client moves before this process is gone, even if it never asks its bootstrap servers again (before KIP-899).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from mesh.apis.api import AnyApi, Api, as_it_is
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.table import TABLE
from mesh.pool.common.effects import Effect
from mesh.wire import messages as m
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode


def fetch(context: PoolContext, request: m.FetchRequest) -> Sequence[Effect]:
    topics = tuple(
        m.FetchTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                m.FetchPartitionResponse(partition=each.partition, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return context.answer(m.FetchResponse(topics=topics))


def _always(response: m.ResponseMessage) -> Callable[[PoolContext, Any], Sequence[Effect]]:
    return lambda context, _: context.answer(response)


_HANDLERS: Final[Mapping[ApiKey, Callable[[PoolContext, Any], Sequence[Effect]]]] = {
    ApiKey.FETCH: fetch,
    ApiKey.JOIN_GROUP: _always(m.JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)),
    ApiKey.SYNC_GROUP: _always(m.SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)),
    ApiKey.HEARTBEAT: _always(m.HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _always(m.ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)),
    ApiKey.SHARE_GROUP_HEARTBEAT: _always(m.ShareGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)),
}
_APIS: Final = {key: Api(key, TABLE[key].versions, handle, as_it_is) for key, handle in _HANDLERS.items()}
RECORDS_ELSEWHERE: Final[Mapping[ApiKey, AnyApi]] = MappingProxyType({ApiKey.FETCH: _APIS[ApiKey.FETCH]})
GROUPS_ELSEWHERE: Final[Mapping[ApiKey, AnyApi]] = MappingProxyType(
    {key: api for key, api in _APIS.items() if key is not ApiKey.FETCH}
)
"""Replaces handlers of `TABLE`. The handlers for records (`RECORDS_ELSEWHERE`) are replaced first: a member that joins
at another process does not fetch meanwhile. If a client learned of new leaders only after that, this process might be
gone, and aiokafka knows no other address."""
