"""Which part of a request its client may make: the one place where rules are asked. Handlers see only what is allowed.

`GUARDS` has a line for every API (a test says so if one is missing). A guard asks `context.access.allows(operation,
resource type, name)` and returns

* None: nothing of it is refused;
* `Denied`: all of it is, and this is the answer; no handler is asked;
* `Partial`: the request without what is refused, and how to put the refused parts into the handler's answer. That is
  also how an answer is filtered which lists what a client may not see: such parts are no refusals.

What needs which operation on what, and which error that costs, is Kafka's (KafkaApis). A new handler: add its guard.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mesh.apis.api import RequestContext
from mesh.apis.guards import groups as of_groups
from mesh.apis.guards import offsets as of_offsets
from mesh.apis.guards import share_groups as of_share_groups
from mesh.apis.guards import topics as of_topics
from mesh.apis.guards.result import GROUP_REFUSED, AuthorizationResult, Denied, Guard, Partial, may_group
from mesh.security.rules import Operation
from mesh.wire import messages as m
from mesh.wire.apis import ApiKey

__all__ = ["GUARDS", "AuthorizationResult", "Denied", "Partial", "authorize", "may_take_part"]


def authorize(api_key: ApiKey, context: RequestContext, request: m.RequestMessage) -> AuthorizationResult:
    """What of the request is allowed; None for all of it."""
    return None if context.access.is_unlimited else GUARDS[api_key](context, request)


def may_take_part(context: RequestContext, group: str) -> bool:
    """Whether the client may be given records as one of this group; who may only describe it may look."""
    return may_group(context, Operation.READ, group)


def _everything(context: RequestContext, request: m.RequestMessage) -> AuthorizationResult:
    return None


GUARDS: Final[Mapping[ApiKey, Guard]] = MappingProxyType(
    {
        ApiKey.PRODUCE: of_topics.produce,
        ApiKey.FETCH: of_topics.fetch,
        ApiKey.LIST_OFFSETS: of_topics.list_offsets,
        ApiKey.METADATA: of_topics.metadata,
        ApiKey.OFFSET_COMMIT: of_offsets.offset_commit,
        ApiKey.OFFSET_FETCH: of_offsets.offset_fetch,
        ApiKey.FIND_COORDINATOR: of_groups.find_coordinator,
        ApiKey.JOIN_GROUP: of_groups.reads_group(m.JoinGroupResponse(error_code=GROUP_REFUSED)),
        ApiKey.HEARTBEAT: of_groups.reads_group(m.HeartbeatResponse(error_code=GROUP_REFUSED)),
        ApiKey.LEAVE_GROUP: of_groups.reads_group(m.LeaveGroupResponse(error_code=GROUP_REFUSED)),
        ApiKey.SYNC_GROUP: of_groups.reads_group(m.SyncGroupResponse(error_code=GROUP_REFUSED)),
        ApiKey.DESCRIBE_GROUPS: of_groups.describe_groups,
        ApiKey.LIST_GROUPS: of_groups.list_groups,
        ApiKey.SASL_HANDSHAKE: _everything,
        ApiKey.API_VERSIONS: _everything,
        ApiKey.SASL_AUTHENTICATE: _everything,
        ApiKey.DELETE_GROUPS: of_groups.delete_groups,
        ApiKey.OFFSET_DELETE: of_groups.offset_delete,
        ApiKey.DESCRIBE_CLUSTER: _everything,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: of_groups.consumer_group_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: of_groups.consumer_group_describe,
        ApiKey.SHARE_GROUP_HEARTBEAT: of_share_groups.share_group_heartbeat,
        ApiKey.SHARE_GROUP_DESCRIBE: of_share_groups.share_group_describe,
        ApiKey.SHARE_FETCH: of_share_groups.share_fetch,
        ApiKey.SHARE_ACKNOWLEDGE: of_share_groups.share_acknowledge,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: of_share_groups.describe_share_group_offsets,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: of_share_groups.alter_share_group_offsets,
    }
)
