"""One connection of a client: the order of its requests, how far the mesh reads ahead, and how it ends."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import cast

import anyio
import pytest
import uvloop
from structlog.testing import capture_logs

from mesh.apis.api import RequestContext
from mesh.listener.limits import Limits
from mesh.listener.requests import PendingRequest
from mesh.pool.apis.table import TABLE
from mesh.pool.common.effects import Effect
from mesh.pool.core import PoolCore
from mesh.runtime.pool.connection import MOST_AHEAD, MOST_QUEUED, PoolConnection
from mesh.runtime.pool.pool_requests import PoolRequests
from mesh.wire.apis import ApiKey
from mesh.wire.messages import RequestMessage
from tests.fake_time import in_fake_time
from tests.integration.security.certificates import Authority
from tests.pool.apis.harness import join_values
from tests.runtime.pool.harness import HIGH_WATER, Bench, Peer, requests_in_work
from tests.wire.entities import frame

# The kernel's buffers


@pytest.mark.anyio
@pytest.mark.parametrize("size", [64 << 10, None])
async def test_the_kernel_keeps_no_more_of_a_connection_than_it_is_told(size: int | None) -> None:
    """`system` leaves the kernel's default."""
    bench = Bench(limits=Limits(send_buffer=size))
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        bounded = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    with anyio.fail_after(10):
        usual = await send_buffer_of(Plain)
        assert usual != bounded
        assert await send_buffer_of(bench.server.accept) == (usual if size is None else bounded)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_it_keeps_no_more_of_one_with_tls(loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path) -> None:
    """Both event loops return the values of the socket underneath."""
    authority = Authority(tmp_path)
    pair = authority.issue("mesh")
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(pair.certificate, pair.key)
    theirs = ssl.create_default_context(cafile=str(authority.certificate))
    with asyncio.Runner(loop_factory=loop) as runner:
        accept = runner.run(_bench(64 << 10)).server.accept
        bounded = runner.run(asyncio.wait_for(send_buffer_of(accept), 10))
        assert runner.run(asyncio.wait_for(send_buffer_of(accept, ours, theirs), 10)) == bounded
        assert runner.run(asyncio.wait_for(send_buffer_of(Plain, ours, theirs), 10)) != bounded


async def _bench(send_buffer: int) -> Bench:
    return Bench(limits=Limits(send_buffer=send_buffer))


class Plain(asyncio.Protocol):
    """The protocol of any server."""


async def send_buffer_of(
    accept: Callable[[], asyncio.BaseProtocol], ours: ssl.SSLContext | None = None, theirs: ssl.SSLContext | None = None
) -> int:
    """The send buffer of a connection that this accepts, with TLS if there are contexts for it."""
    found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def watched() -> asyncio.BaseProtocol:
        protocol = accept()
        made = protocol.connection_made

        def note(transport: asyncio.BaseTransport) -> None:
            made(transport)
            own = cast("socket.socket", transport.get_extra_info("socket"))
            found.set_result(own.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))

        protocol.connection_made = note  # type: ignore[method-assign]
        return protocol

    server = await asyncio.get_running_loop().create_server(watched, "127.0.0.1", 0, ssl=ours)
    async with server:
        port = server.sockets[0].getsockname()[1]
        name = "localhost" if theirs is not None else None
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=theirs, server_hostname=name)
        size = await found
        writer.close()
        await writer.wait_closed()
    return size


# Order


@in_fake_time
async def test_requests_are_answered_in_their_order() -> None:
    bench = Bench()
    peer = bench.peer()
    joining = peer.bytes_of(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
    others = [peer.bytes_of(ApiKey.METADATA, 1, topics=()), peer.bytes_of(ApiKey.API_VERSIONS, 0)]
    peer.protocol.data_received(b"".join([joining, *others]))
    peer.read()
    assert peer.order == [], "they wait for the JoinGroup"
    await asyncio.sleep(0.3)
    peer.read()
    assert peer.order == [1, 2, 3]


REFUSED = ({"name": "orders", "partition_data": ({"index": 0, "records": b"records"},)},)


@in_fake_time
async def test_nothing_waits_for_a_produce_that_is_left_unanswered() -> None:
    bench = Bench()
    peer = bench.peer()
    joining = peer.bytes_of(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
    unanswered = peer.bytes_of(ApiKey.PRODUCE, 3, acks=0, timeout=0, topic_data=())
    peer.protocol.data_received(joining + unanswered * 2 + peer.bytes_of(ApiKey.METADATA, 1, topics=()))
    await asyncio.sleep(0.3)
    peer.read()
    assert peer.order == [1, 3]
    assert not peer.transport.closed
    assert bench.metric("kafka_mesh_requests_total")[("PRODUCE", "NONE")] == 2


@in_fake_time
async def test_a_produce_without_acks_that_is_refused_ends_the_connection_behind_earlier_answers() -> None:
    bench = Bench()
    peer = bench.peer()
    refused = peer.bytes_of(ApiKey.PRODUCE, 3, acks=0, timeout=0, topic_data=REFUSED)
    versions = [peer.bytes_of(ApiKey.API_VERSIONS, 0) for _ in range(2)]
    peer.protocol.data_received(versions[0] + refused + versions[1])
    await asyncio.sleep(0.01)
    peer.read()
    assert peer.order == [2]
    assert peer.transport.closed
    assert bench.metric("kafka_mesh_protocol_errors_total") == {("produce",): 1}


async def fetched(bench: Bench, peer: Peer, count: int = 10) -> dict[int, int]:
    """The peer's position after it got records of partition 0, and fetched again."""
    positions = peer.positions()
    correlation = peer.fetch(positions)
    bench.engine().assign()
    bench.engine().produce(0, first=0, count=count)
    assert peer.answer(correlation).responses[0].partitions[0].records
    return {**positions, 0: positions[0] + count}


@in_fake_time
async def test_a_parked_fetch_is_answered_early_when_another_request_queues_up() -> None:
    bench = Bench()
    peer = await bench.member()
    fetch = peer.fetch(peer.positions(), max_wait=5_000)
    assert peer.answer(fetch) is None
    heartbeat = peer.heartbeat()
    assert peer.answer(fetch) is not None
    await asyncio.sleep(0)
    assert peer.answer(heartbeat).error_code == 0


@in_fake_time
async def test_also_when_the_fetch_comes_to_its_turn_later() -> None:
    bench = Bench()
    peer = await bench.member()
    positions = peer.positions()
    again = peer.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=peer.member_id))
    fetch = peer.fetch(positions, max_wait=5_000)
    metadata = peer.send(ApiKey.METADATA, 1, topics=())
    await asyncio.sleep(0.3)
    assert [peer.answer(each) is not None for each in (again, fetch, metadata)] == [True, True, True]


@in_fake_time
async def test_of_two_fetches_the_second_parks() -> None:
    bench = Bench()
    peer = await bench.member()
    positions = peer.positions()
    first, second = peer.fetch(positions, max_wait=5_000), peer.fetch(positions, max_wait=5_000)
    assert peer.answer(first) is not None
    assert peer.answer(second) is None


@in_fake_time
async def test_connections_take_turns() -> None:
    """A client that sends many requests at once delays others by one of them, not by all."""
    bench = Bench()
    greedy, modest = bench.peer(), bench.peer()
    greedy.protocol.data_received(b"".join(greedy.bytes_of(ApiKey.METADATA, 1, topics=()) for _ in range(50)))
    for turn in range(1, 50):
        assert modest.ask(ApiKey.METADATA, 1, topics=()) is not None
        greedy.read()
        assert len(greedy.order) == turn
        await asyncio.sleep(0)
    greedy.read()
    assert greedy.order == list(range(1, 51))


# Reading ahead


@in_fake_time
async def test_reading_pauses_when_much_is_queued_and_resumes() -> None:
    bench = Bench()
    peer = bench.peer()
    peer.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
    for _ in range(MOST_QUEUED):
        peer.send(ApiKey.METADATA, 1, topics=())
    assert peer.transport.reading
    peer.send(ApiKey.METADATA, 1, topics=())
    assert not peer.transport.reading
    await asyncio.sleep(0.3)
    peer.read()
    assert peer.order == list(range(1, MOST_QUEUED + 3))
    assert peer.transport.reading


@in_fake_time
async def test_reading_pauses_when_many_bytes_came_whatever_they_are() -> None:
    """An ApiVersions in a future version is answered without a handler; half a frame is not a request at all."""
    bench = Bench(limits=Limits(request_rate=1 << 40, request_rate_per_address=1 << 40))
    for data in (frame(b"\0\x12\0\x63" + bytes(4)) * (MOST_AHEAD // 12 + 1), frame(bytes(MOST_AHEAD))[:-1]):
        peer = bench.peer()
        peer.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
        peer.protocol.data_received(data)
        assert not peer.transport.reading
        await asyncio.sleep(0.3)
        assert peer.transport.reading


@in_fake_time
async def test_a_client_that_does_not_read_is_not_read_either() -> None:
    bench = Bench()
    peer = bench.peer()
    peer.transport.stuck = True
    while peer.transport.reading:
        peer.send(ApiKey.METADATA, 1, topics=None)
        peer.protocol.data_received(frame(b"\0\x12\0\x63" + bytes(4)))
    assert len(peer.transport.written) < HIGH_WATER + 1_000
    behind = [peer.send(ApiKey.METADATA, 1, topics=None) for _ in range(3)]
    assert len(peer.transport.written) < HIGH_WATER + 1_000, "what arrived before it was paused waits"
    peer.transport.read_again()
    assert peer.transport.reading
    assert len(peer.transport.written) > HIGH_WATER
    assert behind


@in_fake_time
async def test_a_fetch_of_a_client_that_does_not_read_collects_nothing() -> None:
    bench = Bench()
    peer = await bench.member()
    positions = await fetched(bench, peer)
    peer.protocol.pause_writing()
    peer.fetch(positions)
    bench.engine().produce(0, first=10)
    assert bench.metric("kafka_mesh_parked_fetches") == {("shop",): 0}
    assert bench.metric("kafka_mesh_backlog_records") == {("shop", "orders"): 10}
    peer.protocol.resume_writing()
    assert bench.metric("kafka_mesh_backlog_records") == {("shop", "orders"): 0}


# Ends


@in_fake_time
async def test_a_protocol_error_ends_that_connection_only() -> None:
    bench = Bench()
    peer, other = bench.peer(), bench.peer()
    with capture_logs() as logs:
        peer.protocol.data_received(b"\xff\xff\xff\xff")
    assert peer.transport.closed
    (entry,) = logs
    assert entry["event"] == "connection closed: protocol error"
    assert (entry["reason"], entry["client_host"]) == ("frame_size", "10.0.0.1")
    assert bench.metric("kafka_mesh_protocol_errors_total") == {("frame_size",): 1}
    other.ask(ApiKey.API_VERSIONS, 0)
    assert len(bench.server.listener.connections) == 1


@in_fake_time
async def test_a_protocol_error_found_when_the_request_is_taken_up() -> None:
    """The mesh answers earlier requests first, and does not answer later ones."""
    bench = Bench()
    peer = bench.peer()
    good = peer.bytes_of(ApiKey.API_VERSIONS, 0)
    bad = peer.bytes_of(ApiKey.METADATA, 1, topics=())[4:-1]
    peer.protocol.data_received(good + frame(bad) + peer.bytes_of(ApiKey.API_VERSIONS, 0))
    await asyncio.sleep(0.01)
    peer.read()
    assert peer.order == [1]
    assert peer.transport.closed
    assert len(bench.server.listener.connections) == 0
    assert requests_in_work(bench.server) == 0


@in_fake_time
async def test_it_dies_while_its_join_waits() -> None:
    bench = Bench()
    peer = bench.peer()
    peer.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
    peer.die()
    assert requests_in_work(bench.server) == 0
    await asyncio.sleep(0.3)
    assert not peer.transport.written
    await asyncio.sleep(60)
    assert bench.metric("kafka_mesh_pools") == {(): 0}, "the member expired, and its pool ended"


@pytest.mark.parametrize("end", ["dies", "protocol error"])
def test_it_ends_while_its_fetch_holds_records(end: str) -> None:
    @in_fake_time
    async def test() -> None:
        bench = Bench()
        peer, other = await bench.member("peer"), await bench.member("other")
        positions = await fetched(bench, peer)
        peer.fetch(positions, min_bytes=10_000, max_wait=5_000)
        bench.engine().produce(0, first=10, count=1)
        waiting = other.fetch(other.positions(), max_wait=5_000)
        assert other.answer(waiting) is None
        if end == "dies":
            peer.die()
        else:
            peer.protocol.data_received(b"\xff\xff\xff\xff")
        assert other.answer(waiting).responses[0].partitions[0].records, "at once, and not when it has expired"
        assert requests_in_work(bench.server) == 0

    test()


@in_fake_time
async def test_it_dies_while_its_commit_is_stored() -> None:
    bench = Bench(store_at_once=False)
    peer = await bench.member()
    peer.commit(await fetched(bench, peer))
    peer.die()
    assert requests_in_work(bench.server) == 0
    bench.engine().store()
    assert not peer.transport.written
    assert bench.metric("kafka_mesh_commits_total") == {}, "nobody was told"


@in_fake_time
async def test_a_client_that_sends_nothing_whole_for_long_is_disconnected() -> None:
    bench = Bench()
    silent, half, length, busy = (bench.peer() for _ in range(4))
    half.protocol.data_received(half.bytes_of(ApiKey.METADATA, 1, topics=())[:-1])
    length.protocol.data_received(b"\0\0\x10\0")
    for _ in range(3):
        await asyncio.sleep(Limits().idle_timeout * 0.4)
        busy.ask(ApiKey.API_VERSIONS, 0)
    assert [peer.transport.closed for peer in (silent, half, length, busy)] == [True, True, True, False]
    assert len(bench.server.listener.connections) == 1
    await asyncio.sleep(Limits().idle_timeout + 1)
    assert busy.transport.closed


# Bugs


class Bug(Exception):
    pass


def replace(monkeypatch: pytest.MonkeyPatch, api_key: ApiKey, **parts: object) -> None:
    broken = dataclasses.replace(TABLE[api_key], **parts)  # type: ignore[arg-type]
    monkeypatch.setattr(PoolRequests, "table", {**TABLE, api_key: broken})


def raise_bug(*_: object) -> list[Effect]:
    raise Bug("oh")


@pytest.mark.parametrize("part", ["handle", "respond"])
def test_a_bug_in_a_handler_ends_that_connection_loudly(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @in_fake_time
    async def test() -> None:
        replace(monkeypatch, ApiKey.METADATA, **{part: raise_bug})
        bench = Bench()
        peer, other = bench.peer(), bench.peer()
        with capture_logs() as logs:
            peer.send(ApiKey.METADATA, 1, topics=())
        assert peer.transport.closed
        assert not peer.transport.written
        (entry,) = (entry for entry in logs if entry["log_level"] == "error")
        assert entry["event"] == "connection closed: bug in kafka-mesh"
        assert entry["exc_info"]
        assert bench.metric("kafka_mesh_requests_total") == {("METADATA", "UNKNOWN_SERVER_ERROR"): 1}
        other.ask(ApiKey.API_VERSIONS, 0)
        assert requests_in_work(bench.server) == 0

    test()


@in_fake_time
async def test_a_bug_while_a_timer_answers_stops_nothing_else() -> None:
    with pytest.MonkeyPatch.context() as patch:
        respond = TABLE[ApiKey.JOIN_GROUP].respond

        def broken(context: RequestContext, request: RequestMessage, result: object) -> object:
            if context.client_id == "peer":
                raise Bug("oh")
            return respond(context, request, result)

        replace(patch, ApiKey.JOIN_GROUP, respond=broken)
        bench = Bench()
        peer, other = bench.peer("peer"), bench.peer("other")
        peer.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
        waiting = other.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
        await asyncio.sleep(0.3)
    assert peer.transport.closed
    assert other.answer(waiting).error_code == 0


def test_a_pool_that_contradicts_itself_leaves_no_request_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_fake_time
    async def test() -> None:
        monkeypatch.setattr("mesh.pool.fetch.serving.Serving.fetch", raise_bug)
        bench = Bench()
        peer, other = await bench.member("peer"), await bench.member("other", group="another")
        fetch = peer.fetch(peer.positions())
        assert peer.answer(fetch) is not None or peer.transport.closed
        assert bench.metric("kafka_mesh_pool_violations_total") == {(): 1}
        assert requests_in_work(bench.server) == 0
        assert other.answer(other.heartbeat("another")).error_code == 0

    test()


@in_fake_time
async def test_an_answered_request_leaves_nothing_for_the_garbage_collector() -> None:
    """A request may have megabytes, and thousands of them may come before the collector runs."""
    bench = Bench()
    peer = await bench.member("peer")
    gc.collect()
    others = _requests_and_connections()  # also those that an earlier test of this process has left
    gc.disable()
    try:
        for _ in range(20):
            peer.ask(ApiKey.METADATA, 1, topics=())
            assert peer.answer(peer.heartbeat()).error_code == 0
        fetch = peer.fetch(peer.positions())
        peer.die()
        del fetch
        kept = _requests_and_connections()
        assert [each for each in kept if not any(each is other for other in others)] == []
    finally:
        gc.enable()


def _requests_and_connections() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, PendingRequest | PoolConnection)]


@in_fake_time
async def test_nothing_is_taken_up_once_a_connection_is_being_closed() -> None:
    bench = Bench()
    peer = bench.peer()
    peer.protocol.client.close()
    peer.send(ApiKey.METADATA, 1, topics=())
    assert requests_in_work(bench.server) == 0
    assert not peer.transport.written


@in_fake_time
async def test_a_bug_while_a_fetch_is_answered_early_ends_its_connection_only() -> None:
    bench = Bench()
    peer = await bench.member("peer")
    peer.fetch(peer.positions())
    with pytest.MonkeyPatch.context() as patch, capture_logs() as logs:
        patch.setattr(PoolCore, "answer_early", raise_bug)
        peer.heartbeat()
    assert peer.transport.closed
    assert "connection closed: bug in kafka-mesh" in {entry["event"] for entry in logs}
