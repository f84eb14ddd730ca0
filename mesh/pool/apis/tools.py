"""Shared by the handlers that serve tools: recognizes tools, and finds the upstream committed offsets of a group."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.answers import Answer
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import AskUpstream, Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import CommittedUpstream, FindGroupOffsets
from mesh.pool.common.results import TopicPartition
from mesh.pool.inspection import known_positions
from mesh.wire.errors import ErrorCode

MOST_GROUPS = 200
"""The most groups of one request about which the upstream clusters are asked. The rest get INVALID_REQUEST."""


def notice(context: PoolContext) -> None:
    """Notes that the client sent a request that only tools send."""
    context.core.tools.noticed(context.client, context.now)


def is_tool(context: PoolContext) -> bool:
    """Returns whether the client is a tool (`mesh.pool.identity.tools`)."""
    state = context.core.connections[context.connection]
    return context.core.tools.is_tool(state, context.client, context.now)


def ask_for_groups(context: PoolContext, names: Sequence[str]) -> list[Effect]:
    """Asks the upstream clusters for the committed offsets of these groups. The result is a `CommittedUpstream`."""
    groups = [GroupId(name) for name in dict.fromkeys(names) if refusal(context, name) is ErrorCode.NONE]
    if not groups:
        return [Answer(context.ticket, CommittedUpstream({}, {}))]
    question = FindGroupOffsets(tuple(groups[:MOST_GROUPS]), context.core.topics.sources())
    return [AskUpstream(context.ticket, question)]


def refusal(context: PoolContext, name: str) -> ErrorCode:
    return context.core.rules.refusal(name)


def refusal_to_describe(context: PoolContext, name: str) -> ErrorCode:
    """Returns the error with which a group is not described at this node, NONE if it is described."""
    error = refusal(context, name)
    return error if error is not ErrorCode.NONE or context.is_at_coordinator else ErrorCode.NOT_COORDINATOR


def committed(context: PoolContext, name: str, found: CommittedUpstream) -> tuple[ErrorCode, dict[TopicPartition, int]]:
    """Returns the committed offsets of a group, by the topics and numbers that clients see. If a cluster does not
    answer, the offsets are those that its pool knows, or an error if there are none."""
    group = GroupId(name)
    if (error := refusal(context, name)) is not ErrorCode.NONE:
        return error, {}
    if group not in found.offsets:
        return ErrorCode.INVALID_REQUEST, {}
    offsets = dict(found.offsets[group])
    for cluster, failure in found.errors.get(group, {}).items():
        pool = context.core.pools.get(group)
        known = dict(known_positions(pool, cluster)) if pool is not None else {}
        if not known:
            error = failure
        offsets.update(known)
    numbered = ((context.core.topics.number(source), offset) for source, offset in offsets.items())
    return error if not offsets else ErrorCode.NONE, {
        number: offset for number, offset in numbered if number is not None
    }
