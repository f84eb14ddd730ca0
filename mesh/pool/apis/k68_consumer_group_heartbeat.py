"""ConsumerGroupHeartbeat: v0-v1

Behaviour:
* With it a member of the consumer protocol (KIP-848) joins (epoch 0), shows that it is alive, and leaves (-1; -2 for a
  static member that will return). The member is assigned every partition of the topics it subscribes to. Members of a
  pool share only records; classic members may be in the same pool.
* The member's epoch rises when its assignment changes and when it joins again. Another epoch gets FENCED_MEMBER_EPOCH,
  unless an answer was lost; so does a member that has to join again because its commit is lost (docs/decisions/0049).
  An unknown member, or one of an unknown group, gets UNKNOWN_MEMBER_ID.
* A static member whose instance id belongs to another live member gets UNRELEASED_INSTANCE_ID. An assignor that brokers
  do not have gets UNSUPPORTED_ASSIGNOR.
* A regular expression has the syntax of RE2, as on brokers. It adds the topics whose whole names match and that the
  user may see (DESCRIBE). One that is invalid, longer than 1,024 characters, or repeats too much gets
  INVALID_REGULAR_EXPRESSION with a message.

Version notes:
* v0: a member without an id gets one. v1: members make their ids; regular expressions (KIP-848).

Ignored: rack_id, server_assignor (every member is assigned all partitions).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.apis.guards.result import may_topic
from mesh.pool.apis.assignments import topic_partitions
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import ConsumerHeartbeatResult
from mesh.pool.groups.consumer_protocol import HEARTBEAT_INTERVAL, ConsumerHeartbeat
from mesh.pool.groups.patterns import InvalidPattern, TopicPattern
from mesh.records.spans import TopicName
from mesh.security.rules import Operation
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicIdPartitions,
)

FIRST_VERSION_WITH_OWN_MEMBER_ID = 1


def handle(context: PoolContext, request: ConsumerGroupHeartbeatRequest) -> Sequence[Effect]:
    heartbeat = ConsumerHeartbeat(
        member_id=MemberId(request.member_id),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rebalance_timeout=request.rebalance_timeout_ms / 1000 if request.rebalance_timeout_ms >= 0 else None,
        topics=_names(request.subscribed_topic_names),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=_owned(context, request.topic_partitions),
        client=context.client,
        sees=lambda name: may_topic(context, Operation.DESCRIBE, name),
    )
    error, message = _problem(context, request)
    if error is ErrorCode.NONE and heartbeat.problem is not None:
        error, message = ErrorCode.INVALID_REQUEST, heartbeat.problem
    if error is not ErrorCode.NONE:
        return context.answer(ConsumerGroupHeartbeatResponse(error_code=error, error_message=message))
    return context.core.groups.consumer_heartbeat(
        context.connection, context.ticket, GroupId(request.group_id), heartbeat, context.now
    )


def _problem(context: PoolContext, request: ConsumerGroupHeartbeatRequest) -> tuple[ErrorCode, str]:
    if not request.group_id:
        return ErrorCode.INVALID_REQUEST, "the group id is empty"
    if context.version >= FIRST_VERSION_WITH_OWN_MEMBER_ID and not request.member_id:
        return ErrorCode.INVALID_REQUEST, "the member id is empty"
    if request.rack_id == "":
        return ErrorCode.INVALID_REQUEST, "the rack id is empty"
    # The Java client sends "" to remove its regular expression.
    if request.subscribed_topic_regex:
        try:
            TopicPattern(request.subscribed_topic_regex)
        except InvalidPattern as problem:
            return ErrorCode.INVALID_REGULAR_EXPRESSION, str(problem)
    return ErrorCode.NONE, ""


def _names(names: tuple[str, ...] | None) -> tuple[TopicName, ...] | None:
    return tuple(sorted({TopicName(name) for name in names})) if names is not None else None


def _owned(context: PoolContext, owned: tuple[TopicIdPartitions, ...] | None) -> dict[TopicName, frozenset[int]] | None:
    if owned is None:
        return None
    named = ((context.core.topics.name_of(each.topic_id) if each.topic_id else None, each) for each in owned)
    return {name: frozenset(each.partitions) for name, each in named if name is not None}


def respond(
    context: PoolContext,
    request: ConsumerGroupHeartbeatRequest,
    result: ConsumerHeartbeatResult | ConsumerGroupHeartbeatResponse,
) -> ConsumerGroupHeartbeatResponse:
    if isinstance(result, ConsumerGroupHeartbeatResponse):
        return result
    if result.error is not ErrorCode.NONE:
        return ConsumerGroupHeartbeatResponse(error_code=result.error, error_message=result.message)
    assignment = result.assignment
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=round(HEARTBEAT_INTERVAL * 1000),
        assignment=ConsumerGroupAssignment(topic_partitions=topic_partitions(context, assignment))
        if assignment is not None
        else None,
    )


API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, APIS[ApiKey.CONSUMER_GROUP_HEARTBEAT], handle, respond)
