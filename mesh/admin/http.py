"""Metrics, health and a page over HTTP or HTTPS, for operators only: behind a token, if there is one."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Protocol

import anyio
import anyio.abc
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mesh.admin.access import AccessGuard, AdminAccess, shows_details
from mesh.admin.connections import AdminServer
from mesh.admin.page import page
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.values import Address
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.slices import in_slices

INDEX = """kafka-mesh
/         a page for people
/metrics  for Prometheus
/healthz  200 while the process lives
/status   pools, members and partitions, as JSON
/leases   range leases for batch engines; described by /openapi.json
/topologies  the topology of a streams group, with group=NAME
/peers    addresses of each pool, for the other processes of the same pools
/records  what is in a record that is not settled; POST: settle, bury or release it
/replays  records that are delivered again; POST: begin, DELETE: cancel, see docs/replay.md
/moves    topics that are moved to another cluster; POST: begin, DELETE: cancel, see docs/moving-topics.md
/drain    POST, GET, DELETE: drain one pool, see docs/operations.md
/reload   POST: read the configuration again; GET: the result
/readyz   200 when clients are served, else 503 and what is missing
"""


class AdminState(Protocol):
    def problems(self) -> list[str]:
        """Returns the problems that keep clients from being served; empty when ready."""

    def status(self) -> dict[str, object]:
        """Returns every pool with its members and partitions."""

    def drain(self, method: str, asked: Mapping[str, str]) -> tuple[int, dict[str, object]]:
        """Returns the HTTP status and the answer of /drain."""

    async def reload(self, method: str) -> tuple[int, dict[str, object]]:
        """Returns the HTTP status and the answer of /reload."""

    def degraded(self) -> list[dict[str, object]]:
        """Returns the problems upstream that do not stop the rest."""


def admin_app(state: AdminState, metrics: Metrics, more: Sequence[Route] = ()) -> Starlette:
    """Returns the application of the admin address. more: further routes. The handlers are coroutines, so they run on
    the event loop's thread, to which the state belongs."""

    async def index(request: Request) -> Response:
        return page() if "text/html" in request.headers.get("accept", "") else PlainTextResponse(INDEX)

    async def expose(_request: Request) -> Response:
        text = b"".join(await in_slices(metrics.exposition()))
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        problems = state.problems()
        return readiness(request, {"ready": not problems, "problems": problems, "degraded": state.degraded()})

    async def status(_request: Request) -> Response:
        return JSONResponse(state.status())

    async def drain(request: Request) -> Response:
        status_code, body = state.drain(request.method, request.query_params)
        return JSONResponse(body, status_code=status_code)

    async def reload(request: Request) -> Response:
        status_code, body = await state.reload(request.method)
        return JSONResponse(body, status_code=status_code)

    handlers = {"/": index, "/status": status, "/metrics": expose, "/healthz": healthz, "/readyz": readyz}
    routes = [Route(path, handler) for path, handler in handlers.items()]
    routes += [
        Route("/drain", drain, methods=["GET", "POST", "DELETE"]),
        Route("/reload", reload, methods=["GET", "POST"]),
    ]
    return Starlette(routes=[*routes, *more])


def readiness(request: Request, body: Mapping[str, object]) -> Response:
    """Returns the answer of /readyz: 503 if not ready. Only clients that may see them get the reasons."""
    shown = body if shows_details(request) else {"ready": body["ready"]}
    return JSONResponse(shown, status_code=200 if body["ready"] else 503)


def bind_admin(listen: Address) -> socket.socket:
    """Returns a listening socket. Raises ConfigurationError when it cannot listen on the address."""
    try:
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        return socket.create_server((listen.host, listen.port), family=family)
    except OSError as problem:
        mistake = Mistake(("admin", "listen"), str(listen), f"an address that is free ({problem})")
        raise ConfigurationError([mistake]) from problem


async def serve_admin(
    listener: socket.socket,
    state: AdminState,
    metrics: Metrics,
    *,
    access: AdminAccess | None = None,
    routes: Sequence[Route] = (),
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serves at a listening socket until cancelled, and closes it. `task_status` is started when connections are
    accepted."""
    await serve_http(listener, admin_app(state, metrics, routes), access or AdminAccess(), task_status)


async def serve_http(
    listener: socket.socket,
    app: ASGIApp,
    access: AdminAccess,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serves any application in the same way as `serve_admin`."""
    await AdminServer(AccessGuard(app, access), access).run_at(listener, task_status)
