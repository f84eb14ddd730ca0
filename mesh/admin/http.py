"""Metrics, health and a page over HTTP or HTTPS, for operators only: behind a token, if there is one."""

from __future__ import annotations

import hmac
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
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

_PROBES: Final = frozenset({"/healthz", "/readyz"})
READING: Final = frozenset({"GET", "HEAD"})
_RECORDS: Final = ("/records", "/replays", "/moves")
_NOTHING_SECRET: Final = frozenset({"/"})


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
    """Access to the admin address. token: the token that requests must carry, None for none. open_probes: whether
    requests for health need no token. tls: the context for HTTPS. The token and open_probes may change during use."""

    token: str | None = None
    open_probes: bool = True
    tls: ssl.SSLContext | None = None


class TokenGuard:
    """Answers 401 (RFC 6750) instead of `app` to requests without the token. If there is no token, it answers 403 to
    browsers that would change something, since any page may have made the request. With a token this is not needed:
    other pages do not have it."""

    def __init__(self, app: ASGIApp, access: AdminAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and self._access.token is None:
            if _is_change_by_page(scope):
                app = JSONResponse(
                    {"problem": "without a token (admin.token) a browser page may not change anything"}, 403
                )
            elif _is_of_another_page(scope):
                app = JSONResponse({"problem": "records are shown at an address of this machine, or with a token"}, 403)
        elif scope["type"] == "http" and not self._is_open(scope["path"]):
            given = Headers(scope=scope).get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(given, f"Bearer {self._access.token}".encode()):
                headers = {"www-authenticate": 'Bearer realm="kafka-mesh"'}
                app = PlainTextResponse("a token is required\n", status_code=401, headers=headers)
        await app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in _NOTHING_SECRET or (self._access.open_probes and path in _PROBES)


def _is_change_by_page(scope: Scope) -> bool:
    return scope["method"] not in READING and "origin" in Headers(scope=scope)


def _is_of_another_page(scope: Scope) -> bool:
    """Returns whether a request asks for records under a host name that is not this machine's. A page whose name was
    made to resolve to this address (DNS rebinding) could read them."""
    if not scope["path"].endswith(_RECORDS):
        return False
    host = Headers(scope=scope).get("host", "").rsplit(":", 1)[0].strip("[]")
    try:
        ip_address(host)
    except ValueError:
        return host != "localhost"
    return False


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
    access = access or AdminAccess()
    app = TokenGuard(admin_app(state, metrics, routes), access)
    await serve_http(listener, app, access.tls, task_status=task_status)


async def serve_http(
    listener: socket.socket,
    app: ASGIApp,
    tls: ssl.SSLContext | None,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serves any application in the same way as `serve_admin`."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    config.load()
    config.ssl = tls
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
        # The application ends the whole process on a signal; this server must not handle it.
        yield
