"""FindCoordinator: v0-v4

Behaviour:
* The coordinator of every group is this process, at its second address. A group that is not admitted gets
  GROUP_AUTHORIZATION_FAILED, a transaction or a share coordinator INVALID_REQUEST.

Version notes:
* v1: key types. v3: flexible (KIP-482). v4: several keys (KIP-699).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0


def handle(context: PoolContext, request: FindCoordinatorRequest) -> Sequence[Effect]:
    coordinators = tuple(_coordinator(context, request.key_type, key) for key in request.coordinator_keys)
    return context.answer(FindCoordinatorResponse(coordinators=coordinators))


def _coordinator(context: PoolContext, key_type: int, key: str) -> Coordinator:
    error, message = context.core.rules.refusal(key), None
    if key_type != GROUP:
        error, message = ErrorCode.INVALID_REQUEST, "kafka-mesh coordinates consumer groups only"
    elif error is not ErrorCode.NONE:
        message = f"group {key} is not admitted here" if key else "the group id is empty"
    if error is not ErrorCode.NONE:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
    address = context.endpoint.coordinator
    return Coordinator(key=key, node_id=context.endpoint.nodes.coordinator, host=address.host, port=address.port)


API = Api(ApiKey.FIND_COORDINATOR, APIS[ApiKey.FIND_COORDINATOR], handle, as_it_is)
