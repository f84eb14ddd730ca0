"""ListConfigResources: v0-v1

Behaviour:
* Lists groups with a configuration that IncrementalAlterConfigs has set. There are no resources of other types.
* While the store is being read the answer is COORDINATOR_LOAD_IN_PROGRESS.

Version notes:
* v0: ListClientMetricsResources, of which there are none. v1: the requested types (KIP-1142); an empty list means all.

Ignored: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import notice, refusal
from mesh.pool.common.effects import Effect
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    GROUP_RESOURCE,
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

FIRST_VERSION_WITH_TYPES = 1


def handle(context: PoolContext, request: ListConfigResourcesRequest) -> Sequence[Effect]:
    notice(context)
    names: list[str] = []
    if context.version >= FIRST_VERSION_WITH_TYPES and GROUP_RESOURCE in (request.resource_types or (GROUP_RESOURCE,)):
        if context.core.kept_share_groups.is_loading:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return context.answer(ListConfigResourcesResponse(error_code=error, config_resources=()))
        names = [each for each in context.core.kept_share_groups.configured() if not _is_refused(context, each)]
    resources = tuple(ConfigResource(resource_name=name, resource_type=GROUP_RESOURCE) for name in sorted(names))
    return context.answer(ListConfigResourcesResponse(config_resources=resources))


def _is_refused(context: PoolContext, group: str) -> bool:
    return refusal(context, group) is not ErrorCode.NONE


API = Api(ApiKey.LIST_CONFIG_RESOURCES, APIS[ApiKey.LIST_CONFIG_RESOURCES], handle, as_it_is)
