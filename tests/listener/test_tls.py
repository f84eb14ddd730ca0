"""How many handshakes may be in progress, and which clients may begin one while others do not finish theirs."""

from __future__ import annotations

import asyncio
import socket
import ssl
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from mesh.listener import tls
from mesh.listener.security import ListenerSecurity, Tls
from mesh.listener.tls import TlsListener
from mesh.tasks import Tasks
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth


@pytest.mark.anyio
async def test_an_address_that_ends_no_handshake_keeps_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "MOST_HANDSHAKES", 8)
    failures: list[str] = []
    server = SimpleNamespace(
        name="orders",
        metrics=SimpleNamespace(tls_failure=lambda name, reason: failures.append(reason)),
        security=ListenerSecurity(Tls(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))),
    )
    bound = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0, start_serving=False)
    address = bound.sockets[0].getsockname()
    clients: list[socket.socket] = []

    async def connect(host: str) -> None:
        clients.append(socket.create_connection(address, source_address=(host, 0)))
        await anyio.sleep(0.02)

    async with anyio.create_task_group() as tasks:
        kept = Tasks(tasks, TaskHealth(Metrics()))
        listener = TlsListener([bound.sockets[0].dup()], cast("Any", server), asyncio.Protocol, kept)
        await listener.start_serving()
        for _ in range(10):
            await connect("127.0.0.2")
        assert failures == ["busy"] * 6
        await connect("127.0.0.3")
        assert failures == ["busy"] * 6
        for client in clients:
            client.close()
        tasks.cancel_scope.cancel()
    bound.close()
