"""DescribeCluster: v0-v2

Behaviour:
* The two nodes of Metadata. There are no controllers to be asked: UNSUPPORTED_ENDPOINT_TYPE.

Version notes:
* v1: endpoint types (KIP-919). v2: fenced brokers (KIP-1073) - there are none.

Ignored: include_cluster_authorized_operations, include_fenced_brokers.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import BROKER_NODE, COORDINATOR_NODE, PoolContext
from mesh.pool.common.effects import Effect
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS = 1


def handle(context: PoolContext, request: DescribeClusterRequest) -> Sequence[Effect]:
    endpoint = context.endpoint
    if request.endpoint_type != BROKERS:
        return context.answer(
            DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="there are no controllers here",
                endpoint_type=request.endpoint_type,
            )
        )
    nodes = ((BROKER_NODE, endpoint.broker), (COORDINATOR_NODE, endpoint.coordinator))
    response = DescribeClusterResponse(
        cluster_id=endpoint.cluster_id,
        controller_id=BROKER_NODE,
        brokers=tuple(
            DescribeClusterBroker(broker_id=node, host=address.host, port=address.port) for node, address in nodes
        ),
    )
    return context.answer(response)


API = Api(ApiKey.DESCRIBE_CLUSTER, APIS[ApiKey.DESCRIBE_CLUSTER], handle, as_it_is)
