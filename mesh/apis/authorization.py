"""Authorization: guards apply the rules of a virtual cluster to requests of
pools. Handlers see only the allowed part of a request. Relays and unions have guards of their own
(`mesh.routing.guards`).

`GUARDS` has a guard for every API; a test fails if one is missing. A guard calls `context.access.allows(operation,
resource type, name)` and returns

* None: the whole request is allowed;
* `Denied`: the whole request is refused, with this answer; no handler runs;
* `Partial`: the allowed part of the request, and a function that adds the refused parts to the handler's answer. Guards
  also use it to remove from an answer the entities that a client may not see; these are no refusals.

Operations, resources and errors are those of Kafka (KafkaApis). A new handler needs a guard.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mesh.apis.api import RequestContext
from mesh.apis.guards import configs as of_configs
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
    """Returns the result of the guard of an API; None if the whole request is allowed."""
    return None if context.access.is_unlimited else GUARDS[api_key](context, request)


def may_take_part(context: RequestContext, group: str) -> bool:
    """Returns whether the client may get records as a member of this group. A client that may only describe the group
    may not."""
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
        ApiKey.DESCRIBE_CONFIGS: of_configs.describe_configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: of_configs.incremental_alter_configs,
        ApiKey.LIST_CONFIG_RESOURCES: of_configs.list_config_resources,
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
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: of_share_groups.delete_share_group_offsets,
    }
)
