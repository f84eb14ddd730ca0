"""A relay with interceptors, in front of a broker that gives the answer to one request in the place of another: the
connection ends, and no record passes without the interceptor."""

from __future__ import annotations

import pytest

from mesh.interceptors.spi import Outcome, Record
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import read_tree, write_tree
from tests.interceptors.fakes import Does, batch
from tests.runtime.interception.requests import interceptors_of
from tests.runtime.relay.frames import answer, request
from tests.runtime.relay.harness import Asked, FakeBroker, Leg, Script, world
from tests.runtime.relay.loops import anyhow, until

SAME = 7
"""The correlation id of all requests of the client."""
FETCH = 9
SECRET = b"4111111111111111"
HEARTBEAT = request(ApiKey.HEARTBEAT, 0, SAME)


def masked(record: Record) -> Outcome:
    return record.with_value(b"*" * len(SECRET))


def fetch(topic: str) -> bytes:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}]
    tree = {"replica_id": -1, "max_bytes": 1 << 20, "session_epoch": -1}
    topics = [{"topic": topic, "partitions": partitions}]
    body = write_tree(ApiKey.FETCH, FETCH, Direction.REQUEST, {**tree, "topics": topics})
    return request(ApiKey.FETCH, FETCH, SAME, body)


REQUESTS = fetch("others") + fetch("orders") + HEARTBEAT


def fetched(value: bytes) -> bytes:
    topics = [{"topic": "orders", "partitions": [{"partition_index": 0, "records": batch(value)}]}]
    return write_tree(ApiKey.FETCH, FETCH, Direction.RESPONSE, {"responses": topics})


NOTHING = write_tree(ApiKey.FETCH, FETCH, Direction.RESPONSE, {})
"""An answer without topics."""


def answering(order: list[int]) -> tuple[list[Asked], Script]:
    """Returns the requests that came, and a script that answers them in this order when all have come. -1: with an id
    that no request has."""
    came: list[Asked] = []
    bodies = [NOTHING, fetched(SECRET), b"\0\0", b"\0\0"]

    def script(_: FakeBroker, leg: Leg, asked: Asked) -> None:
        came.append(asked)
        if len(came) == 3:
            for index in order:
                asked = came[index]
                body = bodies[index]
                leg.writer.write(answer(asked.correlation_id if index >= 0 else 1_000, body))

    return came, script


@anyhow
async def test_a_client_whose_requests_have_the_same_id_gets_masked_records() -> None:
    async with world() as made:
        await made.known()
        made.runtime._services.interceptors = interceptors_of(Does(masked))
        came, made.broker.script = answering([0, 1, 2])
        client = await made.client(0)
        client.send(REQUESTS)
        first, second, third = [await client.frame() for _ in range(3)]
        assert (first, third) == (answer(SAME, NOTHING)[4:], answer(SAME, b"\0\0")[4:])
        assert len({each.correlation_id for each in came}) == 3
        tree = read_tree(ApiKey.FETCH, FETCH, Direction.RESPONSE, memoryview(second)[4:])
        records = bytes(tree["responses"][0]["partitions"][0]["records"])
        assert (second[:4], SECRET in records, b"****" in records) == (answer(SAME)[4:], False, True)


@pytest.mark.parametrize(
    "order",
    [
        pytest.param([0, 0, 1], id="twice"),
        pytest.param([1, 0, 2], id="too early"),
        pytest.param([0, 2, 1], id="too late"),
        pytest.param([0, -1, 1, 2], id="one that was not asked for"),
    ],
)
@anyhow
async def test_no_record_passes_in_the_place_of_another_answer(order: list[int]) -> None:
    async with world() as made:
        await made.known()
        made.runtime._services.interceptors = interceptors_of(Does(masked))
        _, made.broker.script = answering(order)
        client = await made.client(0)
        client.send(REQUESTS)
        received = await client.rest()
        await until(lambda: not made.listener.connections)
        assert SECRET not in received
        assert received in (b"", answer(SAME, NOTHING))
