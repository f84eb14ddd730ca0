"""Metrics and health over HTTP, for operators only: neither authentication nor encryption."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio
import anyio.abc
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.values import Address
from mesh.server.metrics import Metrics

_INDEX = """kafka-mesh
/metrics  for Prometheus
/healthz  200 while the process lives
/readyz   200 when clients are served, else 503 and what is missing
"""


class AdminState(Protocol):
    def problems(self) -> list[str]:
        """What is missing before clients are served; empty when ready."""

    def degraded(self) -> list[dict[str, object]]:
        """What is wrong upstream, though the rest goes on."""


def admin_app(state: AdminState, metrics: Metrics) -> Starlette:
    """The handlers are coroutines: they run on the event loop's thread, where the state they read lives."""

    async def index(_request: Request) -> Response:
        return PlainTextResponse(_INDEX)

    async def expose(_request: Request) -> Response:
        return Response(metrics.exposition(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        problems = state.problems()
        body = {"ready": not problems, "problems": problems, "degraded": state.degraded()}
        return JSONResponse(body, status_code=503 if problems else 200)

    handlers = {"/": index, "/metrics": expose, "/healthz": healthz, "/readyz": readyz}
    return Starlette(routes=[Route(path, handler) for path, handler in handlers.items()])


async def serve_admin(
    listen: Address,
    state: AdminState,
    metrics: Metrics,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; started when connections are accepted.

    Raises ConfigurationError when the address cannot be listened on.
    """
    try:
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        listener = socket.create_server((listen.host, listen.port), family=family)
    except OSError as problem:
        mistake = Mistake(("admin", "listen"), str(listen), f"an address that is free ({problem})")
        raise ConfigurationError([mistake]) from problem
    config = uvicorn.Config(
        admin_app(state, metrics),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config, task_status)
    with listener:
        try:
            await server.serve([listener])
        finally:
            if server.started:
                with anyio.CancelScope(shield=True):
                    await server.shutdown([listener])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, task_status: anyio.abc.TaskStatus[None]) -> None:
        super().__init__(config)
        self._task_status = task_status

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._task_status.started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals end the whole process in order, which is not this server's business.
        yield
