"""Large requests pass inside the kernel: whole, in order, and with the same limits and ends as what is copied."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mesh.listener.limits import Limits
from mesh.runtime.relay.splicing import WORTH, Pipe, Pipes, Splice
from mesh.wire.apis import ApiKey
from tests.runtime.relay.frames import answer, produce, request
from tests.runtime.relay.harness import FakeBroker, world
from tests.runtime.relay.loops import everywhere, until

LARGE = 3 << 20


class Moved:
    """Counts the bytes that pipes take, and how often they are offered some."""

    def __init__(self) -> None:
        self.bytes = 0
        self.tries = 0


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Moved:
    counted, fill = Moved(), Pipe.fill

    def counting(pipe: Pipe, source: int, most: int) -> int:
        counted.tries += 1
        count = fill(pipe, source, most)
        counted.bytes += count
        return count

    monkeypatch.setattr(Pipe, "fill", counting)
    return counted


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def produced(broker: FakeBroker) -> list[bytes]:
    return [len(each.frame).to_bytes(4, "big") + each.frame for each in broker.leg.asked if each.key == ApiKey.PRODUCE]


@everywhere
async def test_large_and_small_requests_arrive_as_they_were_sent(moved: Moved) -> None:
    chance = random.Random(11)
    sizes = [chance.choice([10, 5_000, WORTH, 300_000, LARGE]) for _ in range(60)]
    sent = [produce(id, chance.choice([0, 1, -1]), chance.randbytes(size)) for id, size in enumerate(sizes)]
    async with world() as made:
        made.broker.script = lambda broker, leg, asked: leg.writer.write(answer(asked.correlation_id))
        client = await made.client()
        await client.ask(ApiKey.HEARTBEAT, 3)
        client.send(*sent, request(ApiKey.HEARTBEAT, 3, 1000))
        while int.from_bytes((await client.frame())[:4], "big") != 1000:
            pass
        assert produced(made.broker) == sent
        assert moved.bytes > sum(map(len, sent)) / 2
        counted = made.metric("kafka_mesh_relay_request_bytes_total")
        assert counted["PRODUCE", "0"] == sum(map(len, sent))


@everywhere
async def test_a_request_of_which_little_comes_at_a_time(moved: Moved) -> None:
    """Bytes are spliced that have come when others were read. There may be none of them."""
    small, sent = produce(0), produce(1, 1, os.urandom(LARGE))
    async with world() as made:
        client = await made.client()
        client.send(small)
        await client.frame()  # the broker is connected: what comes before is copied
        for begin in range(0, len(sent), 40_000):
            client.send(sent[begin : begin + 40_000])
            await asyncio.sleep(0)
        assert await client.frame() == sent[4:][4:][:4] + sent[4:][8:]
        assert produced(made.broker) == [small, sent]
        assert moved.tries


@everywhere
async def test_a_broker_that_accepts_nothing_stops_its_client(moved: Moved) -> None:
    sent = produce(1, 1, os.urandom(40 << 20))
    async with world() as made:
        made.broker.reads = False
        client = await made.client()
        client.send(sent)
        await until(lambda: made.broker.legs and moved.bytes)
        before = -1
        while before != moved.bytes:  # the kernel's buffers fill
            before = moved.bytes
            await asyncio.sleep(0.2)
        assert moved.bytes < len(sent)
        reader = made.broker.leg.reader
        reader._limit = 1 << 20  # type: ignore[attr-defined]
        got = bytearray()
        while len(got) < len(sent):
            got += await reader.read(1 << 20)
        assert got == sent


@everywhere
async def test_descriptors_are_closed_however_a_connection_ends(moved: Moved) -> None:
    sent = produce(1, 1, bytes(LARGE))
    async with world() as made:
        await (await made.client()).ask(ApiKey.HEARTBEAT, 3)
        made.connections[0].client.abort()
        await until(lambda: not made.listener.connections)
        opened = -1
        for end in ("whole", "client closes", "client resets", "broker resets", "mesh closes") * 2:
            moved.bytes = 0
            client = await made.client()
            client.send(sent if end == "whole" else sent[:-1])
            await until(lambda: moved.bytes)
            if end == "whole":
                await client.frame()
            if end == "client resets":
                client.abort()
            elif end == "broker resets":
                made.broker.writers[-1].transport.abort()
            elif end == "mesh closes":
                made.connections[0].client.abort()
            else:
                client.close()
            assert await client.rest() == b""
            await until(lambda: not made.listener.connections and all(leg.has_ended for leg in made.broker.legs))
            client.abort()
            await asyncio.sleep(0)
            opened = descriptors() if opened < 0 else opened
        await until(lambda: descriptors() <= opened + 2)  # two pipes may be in use at once


@everywhere
async def test_descriptors_of_a_connection_count_as_used(moved: Moved) -> None:
    async with world() as made:
        used = made.listener.admission._limiter._descriptors
        client = await made.client()
        await client.ask(ApiKey.HEARTBEAT, 3)
        assert used.used == 2, "the client's connection, and its leg"
        client.send(produce(1, 1, bytes(LARGE)))
        await client.frame()
        assert (used.used, bool(moved.bytes)) == (3, True)
        client.close()
        await until(lambda: not made.listener.connections)
        assert used.used == 0


@everywhere
async def test_the_rest_of_a_request_must_come_in_time(moved: Moved) -> None:
    async with world(limits=Limits(frame_timeout=0.3)) as made:
        client = await made.client()
        client.send(produce(1, 1, bytes(LARGE))[:-1])
        assert await client.rest() == b""
        assert moved.bytes
        assert made.metric("kafka_mesh_connections_closed_total") == {("unfinished_frame",): 1}


@everywhere
async def test_a_request_is_copied_when_all_pipes_are_in_use(moved: Moved) -> None:
    sent = produce(1, 1, os.urandom(LARGE))
    async with world() as made:
        made.runtime._services.pipes = Pipes(0)
        client = await made.client()
        client.send(sent)
        await client.frame()
        assert produced(made.broker) == [sent]
        assert not moved.bytes


@everywhere
async def test_where_the_kernel_does_not_splice_bytes_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pipe: Pipe, source: int, most: int) -> int:
        raise OSError(errno.EINVAL, "no splice here")

    monkeypatch.setattr(Pipe, "fill", refuse)
    sent = [produce(id, 1, os.urandom(LARGE)) for id in range(3)]
    async with world() as made:
        client = await made.client()
        client.send(*sent)
        for _ in sent:
            await client.frame()
        assert produced(made.broker) == sent
        assert made.runtime._services.pipes.take() is None


class Owner:
    """Notes what a splice tells."""

    def __init__(self) -> None:
        self.passed = 0
        self.ends: list[str] = []

    def splice_waits(self) -> None: ...

    def spliced(self, count: int) -> None:
        self.passed += count

    def splice_ended(self) -> None:
        self.ends.append("ended")

    def guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        return call

    def source_lost(self, problem: OSError) -> None:
        self.ends.append("source")

    def target_lost(self, problem: OSError) -> None:
        self.ends.append("target")


@pytest.fixture
def pairs() -> Iterator[list[socket.socket]]:
    """client, the mesh's end of it, the mesh's end of the broker, broker."""
    made: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(2):
            made.append(socket.create_connection(server.getsockname()))
            made.append(server.accept()[0])
    for each in made:
        each.setblocking(False)
    yield [made[0], made[1], made[2], made[3]]
    for each in made:
        each.close()


@everywhere
async def test_exactly_so_many_bytes_move(pairs: list[socket.socket]) -> None:
    client, source, target, broker = pairs
    owner = Owner()
    splice = Splice(Pipes(), source.fileno(), target.fileno(), owner)
    client.send(b"0123456789")
    splice.start(7)
    await until(lambda: owner.ends)
    assert (owner.ends, owner.passed) == (["ended"], 7)
    assert (broker.recv(100), source.recv(100)) == (b"0123456", b"789")
    splice.close()


@everywhere
async def test_a_target_that_is_gone_is_told(pairs: list[socket.socket]) -> None:
    client, source, target, broker = pairs
    owner = Owner()
    splice = Splice(Pipes(), source.fileno(), target.fileno(), owner)
    broker.close()
    while owner.ends[-1:] != ["target"]:
        client.send(b"more")
        splice.start(1 << 30)
        await asyncio.sleep(0.01)
    assert not splice.is_active
    splice.close()


@everywhere
async def test_the_end_of_the_source_ends_it(pairs: list[socket.socket]) -> None:
    client, source, target, broker = pairs
    owner, pipes = Owner(), Pipes()
    splice = Splice(pipes, source.fileno(), target.fileno(), owner)
    client.send(b"half")
    client.close()
    splice.start(8)
    await until(lambda: owner.ends)
    assert (owner.ends, owner.passed, broker.recv(100)) == (["ended"], 4, b"half")
    splice.close()
