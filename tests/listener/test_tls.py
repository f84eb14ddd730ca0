"""How many handshakes may be in progress, and which clients may begin one while others do not finish theirs."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from mesh.listener import tls
from mesh.listener.limits import ConnectionLimiter, Descriptors, Limits
from mesh.listener.security import ListenerSecurity, Tls
from mesh.listener.tls import TlsListener
from mesh.tasks import Tasks
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth


class Bed:
    """A TLS listener on a socket of its own, whose clients send nothing. failures: reasons of failed handshakes."""

    def __init__(self, descriptors: Descriptors) -> None:
        self.failures: list[str] = []
        self.descriptors = descriptors
        self._clients: list[socket.socket] = []

    async def connect(self, host: str = "127.0.0.2") -> None:
        self._clients.append(socket.create_connection(self._address, source_address=(host, 0)))
        await anyio.sleep(0.02)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        server = SimpleNamespace(
            name="orders",
            metrics=SimpleNamespace(tls_failure=lambda name, reason: self.failures.append(reason)),
            security=ListenerSecurity(Tls(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))),
            admission=ConnectionLimiter(Limits(), self.descriptors),
        )
        bound = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0, start_serving=False)
        self._address = bound.sockets[0].getsockname()
        async with anyio.create_task_group() as tasks:
            kept = Tasks(tasks, TaskHealth(Metrics()))
            listener = TlsListener([bound.sockets[0].dup()], cast("Any", server), asyncio.Protocol, kept)
            await listener.start_serving()
            yield
            for client in self._clients:
                client.close()
            tasks.cancel_scope.cancel()
        bound.close()


@pytest.mark.anyio
async def test_an_address_that_ends_no_handshake_keeps_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "MOST_HANDSHAKES", 8)
    bed = Bed(Descriptors(1 << 20))
    async with bed.served():
        for _ in range(10):
            await bed.connect()
        assert bed.failures == ["busy"] * 6
        await bed.connect("127.0.0.3")
        assert bed.failures == ["busy"] * 6


@pytest.mark.anyio
async def test_handshakes_take_descriptors_of_clients() -> None:
    bed = Bed(Descriptors(1 << 20))
    bed.descriptors.used = bed.descriptors.for_clients - 3
    async with bed.served():
        for _ in range(5):
            await bed.connect()
        assert bed.failures == ["busy"] * 2
        assert bed.descriptors.used == bed.descriptors.for_clients
    assert bed.descriptors.used == bed.descriptors.for_clients - 3
