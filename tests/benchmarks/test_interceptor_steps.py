"""The cost of records that no interceptor sees, on their way through a relay with interceptors: a thousand records take
as many steps of the interpreter as a fifth of them."""

from __future__ import annotations

import asyncio

from mesh.interceptors.spi import KEEP
from mesh.runtime.interception.fetches import FetchRequests
from mesh.runtime.interception.produces import ProduceRequests
from mesh.wire.apis import ApiKey
from mesh.wire.interception import InterceptedFrames
from mesh.wire.passing import RequestHead
from tests.benchmarks.steps import count_steps
from tests.interceptors.fakes import Does, batch
from tests.runtime.interception.requests import CORRELATION, OTHERS, answered, client_of, framed

FEW, MANY = [b"x" * 100] * 200, [b"x" * 100] * 1_000
"""Both with a length of three bytes in front."""
FETCH, PRODUCE = 17, 13


def of_fetch(values: list[bytes]) -> int:
    """Passes a Fetch and its answer."""
    client = client_of(Does(lambda _: KEEP))
    asyncio.run(client.names.learn([OTHERS]))
    fetches = FetchRequests(client, lambda: 0.0)
    frames = InterceptedFrames(lambda head: head.api_key == ApiKey.FETCH, lambda: 1 << 20)
    topics = [{"topic_id": OTHERS, "partitions": [{"partition": 0}]}]
    _, request = framed(ApiKey.FETCH, FETCH, {"session_id": 0, "session_epoch": -1, "topics": topics})
    partitions = [{"partition_index": 0, "records": batch(*values)}]
    answer = bytearray(answered(ApiKey.FETCH, FETCH, {"responses": [{"topic_id": OTHERS, "partitions": partitions}]}))

    def pass_on() -> None:
        frames.receive_requests(request)
        assert frames.pending_request is not None
        decision = fetches.decide(*frames.pending_request)
        assert decision is not None and decision.change is None
        frames.decide(decision)
        answer[4:8] = bytes(frames.passed.pop())[8:12]  # a broker answers with the correlation id that it gets
        frames.receive_answers([answer])
        assert len(frames.sent.pop()) == len(answer)

    pass_on()
    return count_steps(pass_on)


def of_produce(values: list[bytes]) -> int:
    """Passes a Produce, until it has left."""
    client = client_of(Does(lambda _: KEEP))
    asyncio.run(client.names.learn([OTHERS]))
    produces = ProduceRequests(client)
    partitions = [{"index": 0, "records": batch(*values)}]
    topics = [{"topic_id": OTHERS, "partition_data": partitions}]
    head, frame = framed(ApiKey.PRODUCE, PRODUCE, {"acks": -1, "timeout_ms": 1, "topic_data": topics})
    assert head == RequestHead(head.length, ApiKey.PRODUCE, PRODUCE, CORRELATION)

    def decide() -> None:
        decision = produces.decide(head, frame)
        assert decision is not None and decision.frame == [frame]

    decide()
    return count_steps(decide)


def test_records_that_nobody_wants_to_see_are_not_looked_at() -> None:
    for count in (of_fetch, of_produce):
        assert count(FEW) == count(MANY)
