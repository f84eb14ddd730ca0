"""Access to the admin address: a token, and without one the checks against pages in browsers."""

from __future__ import annotations

import hmac
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mesh.config.model import Admin

READING: Final = frozenset({"GET", "HEAD"})
PROBES: Final = frozenset({"/healthz", "/readyz"})
_NOTHING_SECRET: Final = frozenset({"/"})
_DETAILS: Final = "mesh.details"


@dataclass(slots=True, repr=False, eq=False)
class AdminAccess:
    """Access to the admin address. The token, open_probes and hosts may change during use.

    token: the token that requests must carry, None for none. open_probes: whether requests for health need no token.
    tls: the context for HTTPS. hosts: the names under which requests without a token may reach the address.
    is_loopback: whether only this machine reaches the address.
    """

    token: str | None = None
    open_probes: bool = True
    tls: ssl.SSLContext | None = None
    hosts: frozenset[str] = frozenset()
    is_loopback: bool = False

    def take(self, config: Admin) -> None:
        """Applies what a reload may change."""
        self.token, self.open_probes = config.token, config.open_probes
        self.hosts = frozenset(each.rstrip(".").lower() for each in config.hosts)


class AccessGuard:
    """Answers 401 (RFC 6750) instead of `app` to requests without the token.

    If there is no token, it answers 403 to browsers that would change something, since any page may have made the
    request. It also answers 403 to requests for an unknown host: a page whose name was made to resolve to this address
    (DNS rebinding) could read everything. With a token neither is needed: other pages do not have it.
    """

    def __init__(self, app: ASGIApp, access: AdminAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal: Response | None = None
        if self._access.token is None:
            refusal = self._checked_without_token(scope, headers)
        elif not self._has_token(headers):
            scope[_DETAILS] = self._access.is_loopback
            if not self._is_open(scope["path"]):
                told = {"www-authenticate": 'Bearer realm="kafka-mesh"'}
                refusal = PlainTextResponse("a token is required\n", status_code=401, headers=told)
        await (refusal or self._app)(scope, receive, send)

    def _checked_without_token(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        host = _host_name(headers.get("host", ""))
        if not (_is_of_no_name(host) or host in self._access.hosts):
            scope[_DETAILS] = False
            if scope["path"] not in PROBES:
                problem = f"without a token (admin.token) admin.hosts must have the host of the request, {host!r}"
                return JSONResponse({"problem": problem}, 403)
        if scope["method"] not in READING and "origin" in headers:
            return JSONResponse(
                {"problem": "without a token (admin.token) a browser page may not change anything"}, 403
            )
        return None

    def _has_token(self, headers: Headers) -> bool:
        given = headers.get("authorization", "").encode("latin-1")
        return hmac.compare_digest(given, f"Bearer {self._access.token}".encode())

    def _is_open(self, path: str) -> bool:
        return path in _NOTHING_SECRET or (self._access.open_probes and path in PROBES)


def shows_details(request: Request) -> bool:
    """Returns whether the reasons of an unready process may be shown to the client of a request."""
    return bool(request.scope.get(_DETAILS, True))


def _host_name(header: str) -> str:
    name = header.rpartition("]")[0].lstrip("[") if header.startswith("[") else header.partition(":")[0]
    return name.rstrip(".").lower()


def _is_of_no_name(host: str) -> bool:
    """Returns whether no page of another site can have this host: an IP address, this machine, or no host at all."""
    if host in ("", "localhost"):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
