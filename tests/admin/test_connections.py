"""The connections of an admin address, which stay within bounds of number and time. On both event loops."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from mesh.admin import connections
from mesh.admin.access import AdminAccess
from mesh.admin.connections import AdminProtocol, AdminServer, BusyGuard
from mesh.admin.http import bind_admin, serve_http
from mesh.config.security.model import TlsConfig
from mesh.listener.tls import server_context
from mesh.tasks import OwnedTask, TaskName, reporting
from tests.admin.test_http import free_address
from tests.integration.security.certificates import Authority
from tests.test_tasks import Reports

SOON = 0.05
LONG = 600.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Bed:
    """An admin address whose /slow answers when it is let go, and whose /large answers with 32 MiB."""

    def __init__(self) -> None:
        self.address = free_address()
        self.let_go = asyncio.Event()
        self.slow = 0
        routes = [
            Route("/healthz", self._healthz),
            Route("/slow", self._slow, methods=["GET", "POST"]),
            Route("/large", self._large),
        ]
        self.app = Starlette(routes=routes)

    async def connect(self, sent: str = "") -> Streams:
        streams = await asyncio.open_connection(self.address.host, self.address.port)
        streams[1].write(sent.encode())
        return streams

    async def status(self, path: str) -> bytes:
        """The status of an answer; empty if the connection is closed without one."""
        reader, writer = await self.connect(request(path))
        line = await reader.readline()
        writer.close()
        return line[9:12]

    async def busy(self, count: int) -> Sequence[Streams]:
        """Connections whose requests are being answered."""
        opened = [await self.connect(request("/slow")) for _ in range(count)]
        async with asyncio.timeout(60):
            while self.slow < count:  # noqa: ASYNC110 - the handler tells nobody
                await anyio.sleep(0.001)
        return opened

    async def _healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def _slow(self, request: Request) -> Response:
        self.slow += 1
        await request.body()
        await self.let_go.wait()
        return PlainTextResponse("done")

    async def _large(self, request: Request) -> Response:
        return Response(bytes(32 << 20))


def request(path: str, head: str = "") -> str:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n"


async def closed(streams: Streams) -> bytes:
    """What comes until the connection is closed."""
    async with asyncio.timeout(60):
        try:
            return await streams[0].read()
        except ConnectionResetError:
            return b""


@contextmanager
def limits(**values: object) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("REQUEST_TIMEOUT", "WRITE_TIMEOUT", "HANDSHAKE_TIMEOUT"):
            patch.setattr(connections, name, LONG)
        for name, value in values.items():
            patch.setattr(connections, name, value)
        yield


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def served(request: pytest.FixtureRequest) -> Callable[..., None]:
    def run(test: Callable[[Bed], Awaitable[None]], access: AdminAccess | None = None) -> None:
        async def main() -> None:
            bed = Bed()
            async with anyio.create_task_group() as tasks:
                await tasks.start(serve_http, bind_admin(bed.address), bed.app, access or AdminAccess())
                await test(bed)
                tasks.cancel_scope.cancel()

        anyio.run(main, backend_options={"use_uvloop": request.param})

    return run


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "GET /healthz HT",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y",
        "POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
        "POST /slow HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
)
def test_a_connection_without_a_whole_request_is_closed(served: Callable[..., None], sent: str) -> None:
    async def test(bed: Bed) -> None:
        assert await closed(await bed.connect(sent)) == b""

    with limits(REQUEST_TIMEOUT=SOON):
        served(test)


def test_a_connection_that_trickles_after_an_answer_is_closed(served: Callable[..., None]) -> None:
    async def test(bed: Bed) -> None:
        streams = await bed.connect(request("/healthz") + "GET /heal")
        assert (await closed(streams)).count(b"HTTP/1.1 200 OK") == 1

    with limits(REQUEST_TIMEOUT=SOON):
        served(test)


def test_an_answer_that_takes_long_is_given(served: Callable[..., None]) -> None:
    async def test(bed: Bed) -> None:
        (streams,) = await bed.busy(1)
        await anyio.sleep(4 * SOON)
        bed.let_go.set()
        assert b"done" in await closed(streams)

    with limits(REQUEST_TIMEOUT=SOON):
        served(test)


def test_a_client_that_does_not_read_its_answer_is_closed(served: Callable[..., None]) -> None:
    lost: list[AdminProtocol] = []

    class Told(AdminProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.append(self)

    async def test(bed: Bed) -> None:
        with socket.create_connection((bed.address.host, bed.address.port)) as client:
            client.sendall(request("/large").encode())
            async with asyncio.timeout(60):
                while not lost:  # noqa: ASYNC110 - the client reads nothing, so it is not told
                    await anyio.sleep(0.001)

    with limits(WRITE_TIMEOUT=SOON, AdminProtocol=Told):
        served(test)


def test_a_further_connection_takes_the_place_of_the_one_that_waits_longest(served: Callable[..., None]) -> None:
    async def test(bed: Bed) -> None:
        (busy,) = await bed.busy(1)
        first, second = await bed.connect(), await bed.connect("GET /")
        assert await bed.status("/healthz") == b"200"
        assert await closed(first) == b""
        bed.let_go.set()
        assert b"done" in await busy[0].readuntil(b"done")
        second[1].write(request("/healthz")[5:].encode())
        assert (await second[0].readline())[9:12] == b"200"

    with limits(MOST_CONNECTIONS=3):
        served(test)


def test_a_further_connection_is_closed_when_all_are_busy(served: Callable[..., None]) -> None:
    async def test(bed: Bed) -> None:
        busy = await bed.busy(3)
        assert await closed(await bed.connect()) == b""
        bed.let_go.set()
        for reader, _ in busy:
            await reader.readuntil(b"done")
        assert await bed.status("/healthz") == b"200"

    with limits(MOST_CONNECTIONS=3):
        served(test)


def test_only_health_is_answered_beyond_the_most_requests(served: Callable[..., None]) -> None:
    async def test(bed: Bed) -> None:
        busy = await bed.busy(2)
        assert (await bed.status("/slow"), await bed.status("/healthz")) == (b"503", b"200")
        bed.let_go.set()
        for reader, _ in busy:
            await reader.readuntil(b"done")
        assert await bed.status("/slow") == b"200"

    with limits(MOST_REQUESTS=2):
        served(test)


def test_unfinished_handshakes_keep_nobody_out(served: Callable[..., None], tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    pair = authority.issue("admin")
    tls = server_context(TlsConfig(certificate_file=str(pair.certificate), key_file=str(pair.key)))
    trusted = ssl.create_default_context(cafile=str(authority.certificate))

    async def test(bed: Bed) -> None:
        silent = [await bed.connect() for _ in range(3)]
        secured = await asyncio.open_connection(
            bed.address.host, bed.address.port, ssl=trusted, server_hostname="localhost"
        )
        secured[1].write(request("/healthz").encode())
        assert (await secured[0].readline())[9:12] == b"200"
        assert await closed(silent[0]) == b""
        rubbish = await bed.connect("GET / HTTP/1.1\r\n\r\n")
        await closed(rubbish)

    with limits(MOST_HANDSHAKES=2):
        served(test, AdminAccess(tls=tls))


def test_an_address_whose_accepting_fails_ends_and_so_starts_again(served: Callable[..., None]) -> None:
    async def test(bed: Bed) -> None:
        async def accept(listening: socket.socket) -> None:
            raise KeyError("relay")

        server, reports = AdminServer(bed.app, AdminAccess()), Reports()
        server._accept = accept  # type: ignore[method-assign]
        with reporting(reports):
            async with asyncio.timeout(60):
                await server.run_at(bind_admin(free_address()))
        assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.ADMIN)]

    served(test)


@pytest.mark.anyio
async def test_a_client_that_leaves_in_the_middle_of_its_request_is_no_failure() -> None:
    async def app(*_: object) -> None:
        raise ClientDisconnect

    async def unused(*_: object) -> NoReturn:
        raise AssertionError

    await BusyGuard(app)({"type": "http", "path": "/leases"}, unused, unused)
