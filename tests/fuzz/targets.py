"""The fuzzed code: turns bytes into calls. The same bytes make the same calls, so that a finding can be repeated.

Any exception but ProtocolError is a finding.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final
from unittest.mock import patch

from mesh.listener.limits import Limits
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.settings import PoolSettings
from mesh.wire.connection import ServerConnection
from mesh.wire.errors import ProtocolError
from tests.fake_time import FakeTimeLoop
from tests.runtime.pool.harness import Bench, Peer, requests_in_work
from tests.wire.entities import ALL_VERSIONS, frame, header_and_body
from tests.wire.fuzz import SERVED

HEADERS: Final = [header_and_body(api_key, version)[0] for api_key, version in ALL_VERSIONS]
PEERS: Final = 3
HOOKS: Final = 8
"""Kinds of steps of a script; see `steps`."""

Target = Callable[[bytes], int]


def decode(data: bytes) -> int:
    """One request: API and version, then its body. Also as it is, without any form. Returns the frames."""
    if not data:
        return 0
    for stream in (frame(HEADERS[data[0] % len(HEADERS)] + data[1:]), data, frame(data)):
        try:
            for request in ServerConnection(SERVED).receive_data(stream):
                request.decode()
        except ProtocolError:
            pass
    return 3


def step(kind: int, peer: int, body: bytes = b"", choice: int = 0) -> bytes:
    """One step of a script: kind and peer, a choice, the length of the body in two bytes, the body."""
    return bytes((kind | peer << 4, choice)) + len(body).to_bytes(2, "big") + body


def steps(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """(kind, peer, choice, body) each. Kinds: 0-3 a request with the header of API `choice`; 4 bytes as they are; 5 a
    record batch or an assignment; 6 time passes; 7 the connection dies, and another one comes."""
    found: list[tuple[int, int, int, bytes]] = []
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at + 2 : at + 4], "big")
        found.append((data[at] % HOOKS, (data[at] >> 4) % PEERS, data[at + 1], data[at + 4 : end]))
        at = end
    return found


class Server:
    """A virtual cluster's server, new for each script, on an event loop with its own clock."""

    def __init__(self) -> None:
        self._loop = FakeTimeLoop()
        self._loop.set_exception_handler(self._noted)
        self._problem: BaseException | None = None

    def __call__(self, data: bytes) -> int:
        """Returns the number of frames. Raises errors of the server."""
        self._problem = None
        with patch("uuid.uuid4", same_ids()):
            frames = self._loop.run_until_complete(self._play(data))
        if self._problem is not None:
            raise self._problem
        return frames

    async def bench(self) -> tuple[Bench, list[Peer]]:
        limits = Limits(request_rate=50, connections_per_address=10)
        bench = Bench(PoolSettings(fast_expiry=1.0, lock_timeout=20.0), GroupRules(maximum=3), limits=limits)
        setattr(bench.server._requests, "_failed", _let_through)  # noqa: B010 - of another signature
        return bench, [bench.peer("fuzz") for _ in range(PEERS)]

    async def _play(self, data: bytes) -> int:
        bench, peers = await self.bench()
        frames = sum([await play(bench, peers, each) for each in steps(data)])
        for peer in peers:
            if not peer.transport.closed:
                peer.protocol.connection_lost(None)
        await asyncio.sleep(60)  # remaining members expire, and the pools end
        assert not bench.server.core.violations, "a pool contradicted itself"
        assert not requests_in_work(bench.server)
        assert bench.server.listener.admission.unread == 0
        bench.server.drain()
        bench.server.close_connections()
        return frames

    def _noted(self, _: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        self._problem = context.get("exception") or AssertionError(context["message"])


async def play(bench: Bench, peers: list[Peer], what: tuple[int, int, int, bytes]) -> int:
    """Plays one step; returns its number of frames."""
    kind, number, choice, body = what
    peer = peers[number]
    if peer.transport.closed:
        await asyncio.sleep(0)
        peer = peers[number] = bench.peer("fuzz")
    match kind:
        case 4:
            peer.protocol.data_received(body)
            return 1
        case 5:
            _produce(bench, choice)
        case 6:
            await asyncio.sleep((0, 0.001, 0.05, 0.3, 1, 3.5, 12, 30)[choice % 8])
        case 7:
            peer.protocol.connection_lost(None)
            peers[number] = bench.peer("fuzz")
        case _:
            peer.protocol.data_received(frame(HEADERS[choice % len(HEADERS)] + body))
            peer.transport.written.clear()
            return 1
    return 0


def _produce(bench: Bench, choice: int) -> None:
    for engine in bench.engines[-4:]:
        if engine.last is None:
            if not engine.assigned:
                engine.assign()
            engine.produce_next(choice % 4, 1 + choice // 16)


def same_ids() -> Callable[[], uuid.UUID]:
    """Member ids that are the same in every run of a script."""
    numbers = random.Random(1)
    return lambda: uuid.UUID(int=numbers.getrandbits(128), version=4)


def _let_through(*_: object) -> None:
    raise


TARGETS: Final[Mapping[str, Callable[[], Target]]] = {"decode": lambda: decode, "server": Server}
