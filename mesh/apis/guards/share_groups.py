"""Guards of requests of share members. See `mesh.apis.authorization`.

What a share member may read is asked where its request is handled, for each partition of its session: a request names
only those that are new.
"""

from __future__ import annotations

from mesh.apis.api import RequestContext
from mesh.apis.guards.result import (
    GROUP_REFUSED,
    TOPIC_REFUSED,
    AuthorizationResult,
    Denied,
    groups_refused,
    may_group,
    may_topic,
    topics_refused,
)
from mesh.security.rules import Operation
from mesh.wire import messages as m


def share_group_heartbeat(context: RequestContext, request: m.ShareGroupHeartbeatRequest) -> AuthorizationResult:
    if not may_group(context, Operation.READ, request.group_id):
        response = m.ShareGroupHeartbeatResponse(error_code=GROUP_REFUSED)
        return Denied(response, groups_refused(Operation.READ, [request.group_id]))
    names = request.subscribed_topic_names or ()
    refused = [name for name in names if not may_topic(context, Operation.DESCRIBE, name)]
    if not refused:
        return None
    response = m.ShareGroupHeartbeatResponse(error_code=TOPIC_REFUSED)
    return Denied(response, topics_refused(Operation.DESCRIBE, refused))


def share_fetch(context: RequestContext, request: m.ShareFetchRequest) -> AuthorizationResult:
    group = request.group_id or ""
    if may_group(context, Operation.READ, group):
        return None
    return Denied(m.ShareFetchResponse(error_code=GROUP_REFUSED), groups_refused(Operation.READ, [group]))


def share_acknowledge(context: RequestContext, request: m.ShareAcknowledgeRequest) -> AuthorizationResult:
    group = request.group_id or ""
    if may_group(context, Operation.READ, group):
        return None
    return Denied(m.ShareAcknowledgeResponse(error_code=GROUP_REFUSED), groups_refused(Operation.READ, [group]))
