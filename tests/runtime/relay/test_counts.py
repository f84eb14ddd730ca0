"""Refused, counted and limited requests."""

from __future__ import annotations

from struct import pack

from mesh.listener.limits import Limits
from mesh.wire.apis import ApiKey
from tests.runtime.relay.frames import answer, produce, request, versions, versions_in
from tests.runtime.relay.harness import HOST, Asked, FakeBroker, Leg, world
from tests.runtime.relay.loops import anyhow, everywhere, until


@everywhere
async def test_what_is_refused_is_not_advertised_and_closes() -> None:
    async with world(refused=[ApiKey.CREATE_TOPICS]) as made:
        listed = {ApiKey.CREATE_TOPICS: (2, 7), ApiKey.DELETE_TOPICS: (1, 6)}
        made.broker.script = lambda broker, leg, asked: leg.writer.write(answer(asked.correlation_id, versions(listed)))
        client = await made.client()
        assert set(versions_in(await client.ask(ApiKey.API_VERSIONS, 0))) == {ApiKey.DELETE_TOPICS}
        client.send(request(ApiKey.CREATE_TOPICS, 5, 2))
        assert await client.rest() == b""
        assert made.refused == {("unknown_api",): 1}

        made.runtime.refuse([ApiKey.DELETE_TOPICS])
        client = await made.client()
        assert set(versions_in(await client.ask(ApiKey.API_VERSIONS, 0))) == {ApiKey.CREATE_TOPICS}
        assert await client.ask(ApiKey.CREATE_TOPICS, 5, 2)
        client.send(request(ApiKey.DELETE_TOPICS, 5, 3))
        assert await client.rest() == b""


@anyhow
async def test_status_and_metrics() -> None:
    async with world(2, declared=1) as made:
        await made.look()
        client = await made.client(0)
        asked = request(ApiKey.HEARTBEAT, 3, 1, bytes(100))
        client.send(asked)
        got = await client.frame()
        await until(lambda: made.nodes.known[0].versions)
        first, second = made.runtime.status()["relay"]["nodes"]
        assert made.runtime.status()["relay"]["cluster"] == "eu"
        assert first["address"] == f"{HOST}:{made.ports[0]}"
        assert first["upstream"] == f"{HOST}:{made.broker.port}"
        assert (first["node"], first["legs"], first["problem"], first["requests"]) == (0, 1, "", 1)
        assert (first["bytes_in"], first["bytes_out"]) == (len(asked), len(got) + 4)
        assert first["versions"]["METADATA"] == [0, 4]
        assert (second["node"], second["address"], second["legs"]) == (1, None, 0)
        labels = ("HEARTBEAT", "0")
        assert made.metric("kafka_mesh_relay_requests_total") == {labels: 1}
        assert made.metric("kafka_mesh_relay_request_bytes_total") == {labels: len(asked)}
        assert made.metric("kafka_mesh_relay_response_bytes_total") == {labels: len(got) + 4}
        assert made.metric("kafka_mesh_relay_request_seconds_total")[labels] >= 0
        assert made.metric("kafka_mesh_relay_legs") == {("0",): 1, ("1",): 0}


@anyhow
async def test_errors_are_counted_by_api_and_code() -> None:
    async with world() as made:
        codes = iter([0, 6, 6, -1, 4_711])

        def tell(broker: FakeBroker, leg: Leg, asked: Asked) -> None:
            if asked.key == ApiKey.PRODUCE:
                leg.writer.write(answer(asked.correlation_id, pack(">ihiih", 1, 0, 1, 0, next(codes)) + bytes(30)))
            else:
                leg.writer.write(answer(asked.correlation_id, pack(">ih", 0, 27)))

        made.broker.script = tell
        client = await made.client()
        for id in range(5):
            client.send(produce(id))
            await client.frame()
        await client.ask(ApiKey.HEARTBEAT, 3, 6)
        assert made.metric("kafka_mesh_relay_errors_total") == {
            ("PRODUCE", "NOT_LEADER_OR_FOLLOWER", "0"): 2,
            ("PRODUCE", "UNKNOWN_SERVER_ERROR", "0"): 2,
            ("HEARTBEAT", "REBALANCE_IN_PROGRESS", "0"): 1,
        }


@everywhere
async def test_requests_above_the_rate_rest_but_not_those_with_records() -> None:
    async with world(limits=Limits(request_rate=5)) as made:
        client = await made.client()
        for id in range(50):
            client.send(produce(id), request(ApiKey.FETCH, 11, id))
            assert await client.frame()
            assert await client.frame()
        assert not made.metric("kafka_mesh_throttled_requests_total")
        for id in range(6):
            assert await client.ask(ApiKey.HEARTBEAT, 3, id)
        assert made.metric("kafka_mesh_throttled_requests_total") == {("HEARTBEAT",): 1}
        assert made.connections[0].client.is_reading_paused
        client.send(request(ApiKey.HEARTBEAT, 3, 7))
        assert (await client.frame())[:4] == pack(">i", 7), "later, but answered"
