"""Produce: v3-v9

Behaviour:
* Advertised because librdkafka sends no Fetch to a broker that does not serve Produce (its MSGVER2 feature).
* Refuses every partition with POLICY_VIOLATION, which no client retries.
* A request with acks=0 has no answer, so its connection is closed, as by a broker when such a request fails. A request
  without a partition does not fail.

Version notes:
* v8: the answer carries an error message (KIP-467).
* v9: flexible (KIP-482).

Ignored: the records, transactional_id, timeout_ms.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.answers import Answer
from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.messages import ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopicResponse

MESSAGE = "a pool does not accept records; produce to the Kafka cluster itself"


def handle(context: PoolContext, request: ProduceRequest) -> Sequence[Effect]:
    if request.acks == 0:
        if any(topic.partition_data for topic in request.topic_data):
            raise ProtocolError("produce", MESSAGE)
        return [Answer(context.ticket, None)]
    responses = tuple(
        ProduceTopicResponse(
            name=topic.name,
            partition_responses=tuple(
                ProducePartitionResponse(
                    index=partition.index, error_code=ErrorCode.POLICY_VIOLATION, error_message=MESSAGE
                )
                for partition in topic.partition_data
            ),
        )
        for topic in request.topic_data
    )
    return context.answer(ProduceResponse(responses=responses))


def respond(context: PoolContext, request: ProduceRequest, result: ProduceResponse | None) -> ProduceResponse | None:
    return result


API = Api(ApiKey.PRODUCE, APIS[ApiKey.PRODUCE], handle, respond)
