"""Requests and answers pass in order and unchanged, and nothing piles up."""

from __future__ import annotations

import asyncio
import gc
import weakref
from struct import pack

from mesh.runtime.relay.connection import RelayConnection
from mesh.runtime.relay.splicing import Pipes
from mesh.wire.apis import ApiKey
from tests.runtime.relay.frames import answer, brokers_in, metadata, produce, request
from tests.runtime.relay.harness import HOST, Asked, FakeBroker, Leg, world
from tests.runtime.relay.loops import anyhow, everywhere, until

NO_PIPES = Pipes(0)
SHORT = 4 << 20
"""The most bytes of one client inside the mesh: high water marks, and a chunk each way."""


@everywhere
async def test_pipelined_requests_are_answered_in_their_order() -> None:
    async with world() as made:
        client = await made.client()
        asked = [request(ApiKey.HEARTBEAT, 3, id, bytes([id % 256]) * id) for id in range(200)]
        client.send(*asked)
        for id in range(200):
            assert await client.frame() == pack(">i", id) + asked[id][12:]
        assert made.nodes.known[0].legs == 1
        assert made.broker.accepted == len(made.broker.legs) + 1, "one of its own for the client, one of the mesh"
        assert made.metric("kafka_mesh_relay_requests_total") == {("HEARTBEAT", "0"): 200}


@anyhow
async def test_the_address_of_no_node_stands_for_any() -> None:
    async with world(3) as made:
        await made.known()
        for _ in range(3):
            client = await made.client(None)
            assert await client.ask(ApiKey.HEARTBEAT, 3) == pack(">ih", 1, 4) + b"test"
        assert [len(broker.legs) for broker in made.cluster.brokers.values()] == [1, 1, 1]


@anyhow
async def test_metadata_tells_the_addresses_of_the_mesh() -> None:
    async with world(2) as made:
        client = await made.client(None)
        for broker in made.cluster.brokers.values():
            broker.script = lambda broker, leg, asked: leg.writer.write(
                answer(asked.correlation_id, metadata(broker.cluster.addresses))
            )
        found = brokers_in(await client.ask(ApiKey.METADATA, 4, body=pack(">ib", -1, 0)))
        assert found == {id: ("127.0.0.1", made.ports[id]) for id in (0, 1)}


@everywhere
async def test_a_large_answer_to_a_client_that_reads_slowly() -> None:
    size = 30 << 20
    records = bytes(range(251)) * (size // 251)

    def script(broker: FakeBroker, leg: Leg, asked: Asked) -> None:
        leg.writer.write(answer(asked.correlation_id, records))

    async with world() as made:
        made.broker.script = script
        client = await made.client()
        client.send(request(ApiKey.FETCH, 11, 7))
        await until(lambda: made.listener.admission.unread)
        assert made.listener.admission.unread < SHORT
        assert made.held < SHORT
        got = bytearray()
        while len(got) < len(records) + 8:
            got += await client.reader.read(1 << 16)
            assert made.listener.admission.unread < SHORT
            assert made.held < SHORT
        assert got == answer(7, records)
        assert made.metric("kafka_mesh_relay_response_bytes_total") == {("FETCH", "0"): len(records) + 8}


@everywhere
async def test_a_large_produce_to_a_broker_that_reads_nothing() -> None:
    """Where bytes cannot be spliced, as over TLS."""
    size = 50 << 20
    async with world() as made:
        made.runtime._services.pipes = NO_PIPES
        made.broker.reads = False
        client = await made.client()
        client.send(produce(1, -1, bytes(size)))
        await until(lambda: made.broker.legs and made.connections[0].client.is_reading_paused and made.waiting_upstream)
        assert made.waiting_upstream < SHORT
        assert made.held < SHORT
        made.broker.leg.reader._limit = 1 << 20  # type: ignore[attr-defined]
        got = 0
        while got < size:
            got += len(await made.broker.leg.reader.read(1 << 16))
            assert made.waiting_upstream < SHORT
            assert made.held < SHORT


@anyhow
async def test_an_answer_that_is_rewritten_comes_in_small_pieces() -> None:
    async with world() as made:
        pieces = answer(1, metadata({0: (HOST, made.broker.port)}))
        made.broker.script = lambda *_: None
        client = await made.client()
        client.send(request(ApiKey.METADATA, 4, 1, pack(">ib", -1, 0)))
        await until(lambda: made.broker.legs)
        for at in range(len(pieces)):
            made.broker.leg.writer.write(pieces[at : at + 1])
            await asyncio.sleep(0)
        assert brokers_in(await client.frame()) == {0: (HOST, made.ports[0])}


@everywhere
async def test_what_is_not_acknowledged_arrives_though_its_client_leaves_at_once() -> None:
    """With and without an existing connection to the broker."""
    sent = b"".join(produce(id, 0, bytes(100_000)) for id in range(100))
    for is_first in (False, True):
        async with world() as made:
            client = await made.client()
            if not is_first:
                await client.ask(ApiKey.HEARTBEAT, 3)
                legs = made.broker.legs
            else:
                made.broker.cuts, legs = False, made.broker.legs
            client.send(sent)
            client.close()
            await until(lambda legs=legs: legs and legs[-1].has_ended)  # type: ignore[misc]
            got = bytes(legs[-1].data) or b"".join(
                len(each.frame).to_bytes(4, "big") + each.frame for each in legs[-1].asked if each.key == 0
            )
            assert len(got) == len(sent)
            assert got == sent


@everywhere
async def test_a_small_request_that_is_not_acknowledged_arrives_before_there_is_a_connection() -> None:
    for order in range(2):
        async with world() as made:
            made.broker.cuts = False
            client = await made.client()
            client.send(produce(1, 0))
            if order:
                client.close()
            else:
                client.writer.transport.abort() if not client.writer.transport.get_write_buffer_size() else None
            await until(lambda: made.broker.legs and made.broker.leg.has_ended)
            assert made.broker.leg.data == produce(1, 0)


@everywhere
async def test_whole_requests_before_one_that_is_cut_off_arrive() -> None:
    whole = b"".join(produce(id, 0, bytes(10_000)) for id in range(50))
    async with world() as made:
        made.broker.cuts = False
        client = await made.client()
        client.send(whole, produce(99, 0, bytes(10_000))[:5_000])
        client.close()
        await until(lambda: made.broker.legs and made.broker.leg.has_ended)
        assert made.broker.leg.data[: len(whole)] == whole
        assert not made.refused


@everywhere
async def test_what_a_client_that_leaves_has_sent_arrives_though_answers_to_it_come() -> None:
    """If one side closes with unread bytes, the connection is reset, and bytes in flight are lost."""
    async with world() as made:
        made.broker.script = lambda broker, leg, asked: leg.writer.write(answer(asked.correlation_id, bytes(20_000)))
        client = await made.client()
        await client.ask(ApiKey.HEARTBEAT, 3)
        for id in range(300):
            client.send(produce(id, id % 2, bytes(10_000)))
        client.writer.write_eof()
        await client.rest()
        leg = made.broker.leg
        await until(lambda: leg.has_ended)
        assert [each.correlation_id for each in leg.asked if each.key == 0] == list(range(300))


@everywhere
async def test_nothing_stays_of_connections_that_came_and_went() -> None:
    async with world() as made:
        seen: list[weakref.ref[RelayConnection]] = []
        gc.collect()
        gc.disable()
        try:
            for number in range(200):
                client = await made.client()
                await client.ask(ApiKey.HEARTBEAT, 3, number)
                (connection,) = made.connections
                seen.append(weakref.ref(connection))
                del connection
                if number % 3 == 0:
                    client.close()
                elif number % 3 == 1:
                    client.abort()
                else:
                    made.broker.leg.writer.close()
                await until(lambda: not made.listener.connections)
            await until(lambda: all(leg.has_ended for leg in made.broker.legs))
            assert made.nodes.known[0].legs == 0
            assert not [each for each in seen if each() is not None], "a cycle keeps it until garbage is collected"
        finally:
            gc.enable()
