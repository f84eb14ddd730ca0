"""DescribeCluster: v0-v2

Behaviour:
* Returns the nodes of Metadata. Controllers cannot be described: UNSUPPORTED_ENDPOINT_TYPE.

Version notes:
* v1: endpoint types (KIP-919). v2: fenced brokers (KIP-1073) - there are none.

Ignored: include_cluster_authorized_operations, include_fenced_brokers.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import PoolContext
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
    response = DescribeClusterResponse(
        cluster_id=endpoint.cluster_id,
        controller_id=endpoint.nodes.broker,
        brokers=tuple(
            DescribeClusterBroker(broker_id=node, host=address.host, port=address.port)
            for node, address in endpoint.all_nodes()
        ),
    )
    return context.answer(response)


API = Api(ApiKey.DESCRIBE_CLUSTER, APIS[ApiKey.DESCRIBE_CLUSTER], handle, as_it_is)
