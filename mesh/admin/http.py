"""Metrics, health and a page over HTTP or HTTPS, for operators only: behind a token, if there is one."""

from __future__ import annotations

import hmac
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import anyio
import anyio.abc
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mesh.admin.page import page
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.values import Address
from mesh.telemetry.metrics import Metrics

_INDEX = """kafka-mesh
/         all of this for people, in a browser
/metrics  for Prometheus
/healthz  200 while the process lives
/status   every pool, its members and partitions, as JSON
/leases   range leases for batch engines; described by /openapi.json
/topologies  the topology of a streams group, with group=NAME
/drain    POST, GET, DELETE: drain one pool, see docs/operations.md
/reload   POST: read the configuration again; GET: what became of it
/readyz   200 when clients are served, else 503 and what is missing
"""

_PROBES: Final = frozenset({"/healthz", "/readyz"})
_READING: Final = frozenset({"GET", "HEAD"})
_NOTHING_SECRET: Final = frozenset({"/"})


class AdminState(Protocol):
    def problems(self) -> list[str]:
        """What is missing before clients are served; empty when ready."""

    def status(self) -> dict[str, object]:
        """Every pool, its members and partitions."""

    def drain(self, method: str, asked: Mapping[str, str]) -> tuple[int, dict[str, object]]:
        """The HTTP status and the answer of /drain."""

    async def reload(self, method: str) -> tuple[int, dict[str, object]]:
        """The same for /reload."""

    def degraded(self) -> list[dict[str, object]]:
        """What is wrong upstream, though the rest goes on."""


def admin_app(state: AdminState, metrics: Metrics, more: Sequence[Route] = ()) -> Starlette:
    """more: routes beside these. The handlers are coroutines: they run on the event loop's thread, where the state they
    read lives."""

    async def index(request: Request) -> Response:
        return page() if "text/html" in request.headers.get("accept", "") else PlainTextResponse(_INDEX)

    async def expose(_request: Request) -> Response:
        return Response(metrics.exposition(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        problems = state.problems()
        body = {"ready": not problems, "problems": problems, "degraded": state.degraded()}
        return JSONResponse(body, status_code=503 if problems else 200)

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


@dataclass(slots=True, repr=False, eq=False)
class AdminAccess:
    """Access to the admin address. token: what requests must carry, None for nothing. open_probes: those of health need
    not. tls: for HTTPS. All but the last may change while it is used."""

    token: str | None = None
    open_probes: bool = True
    tls: ssl.SSLContext | None = None


class TokenGuard:
    """Answers 401 (RFC 6750) instead of `app` to whoever lacks the token, and 403 to browsers that would change
    something: some page made them, and on loopback there may be no token in its way."""

    def __init__(self, app: ASGIApp, access: AdminAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["method"] not in _READING and "origin" in Headers(scope=scope):
            app = JSONResponse({"problem": "pages in browsers change nothing here"}, status_code=403)
        elif scope["type"] == "http" and self._access.token is not None and not self._is_open(scope["path"]):
            given = Headers(scope=scope).get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(given, f"Bearer {self._access.token}".encode()):
                headers = {"www-authenticate": 'Bearer realm="kafka-mesh"'}
                app = PlainTextResponse("a token is needed\n", status_code=401, headers=headers)
        await app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in _NOTHING_SECRET or (self._access.open_probes and path in _PROBES)


async def serve_admin(
    listen: Address,
    state: AdminState,
    metrics: Metrics,
    *,
    access: AdminAccess | None = None,
    routes: Sequence[Route] = (),
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
        TokenGuard(admin_app(state, metrics, routes), access or AdminAccess()),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    config.load()
    config.ssl = access.tls if access is not None else None
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
