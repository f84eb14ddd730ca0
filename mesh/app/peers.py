"""The other processes of the same virtual clusters: one of them gets the clients when this process stops."""

from __future__ import annotations

import http.client
import itertools
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import anyio
from anyio.to_thread import run_sync
from pydantic import ValidationError

from mesh.admin.peers import Instance, PeersAnswer
from mesh.config.peers import PeersConfig
from mesh.pool.apis.context import Endpoint
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)
TIMEOUT: Final = 2.0
"""Seconds for an answer. A slow peer must not delay the answers of the others for long."""
LONGEST: Final = 4 << 20
"""The largest answer, in bytes."""


class Peers:
    """The other processes, asked regularly for their state. An answer is valid until the next one."""

    def __init__(self, configured: PeersConfig, token: str | None, instance: str) -> None:
        """token: the token of this process's own admin address. instance: the name of this mesh, by which it recognises
        answers of its own processes."""
        self._configured = configured
        self._token = configured.token or token
        self._instance = instance
        self._answers: dict[str, tuple[Instance, ...]] = {}
        self._silent: frozenset[str] = frozenset()

    async def keep_asking(self) -> None:
        while True:
            await self.ask_all()
            await anyio.sleep(self._configured.interval)

    async def ask_all(self) -> None:
        """Asks every process once."""
        async with anyio.create_task_group() as tasks:
            for url in self._configured.urls:
                tasks.start_soon(self._ask, url)
        self._report_silent()

    def best(self, virtual_cluster: str) -> Endpoint | None:
        """Returns the endpoint with the fewest members; None if no other process serves the virtual cluster."""
        found = [
            instance.virtual_clusters[virtual_cluster]
            for instance in self._others()
            if virtual_cluster in instance.virtual_clusters
        ]
        return min(found, key=lambda each: each.members).endpoint() if found else None

    def _others(self) -> Iterator[Instance]:
        """Returns the answers of processes of other meshes. All workers of a mesh stop together, so none of them leads
        clients to another one."""
        found = itertools.chain.from_iterable(self._answers.values())
        return (instance for instance in found if instance.instance != self._instance)

    async def _ask(self, url: str) -> None:
        found = await run_sync(ask, url, self._headers(), self._configured, abandon_on_cancel=True)
        if found:
            self._answers[url] = found
        else:
            self._answers.pop(url, None)

    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token is not None else {}

    def _report_silent(self) -> None:
        silent = frozenset(self._configured.urls) - self._answers.keys()
        for url in sorted(silent - self._silent):
            log.warning("peer does not answer", address=url)
        for url in sorted(self._silent - silent):
            log.info("peer answers again", address=url)
        self._silent = silent


def ask(url: str, headers: Mapping[str, str], configured: PeersConfig) -> tuple[Instance, ...]:
    """Asks the processes behind a URL; empty if none answers. A host name may stand for several; each is asked."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            if configured.certificates is not None:
                context.load_verify_locations(configured.certificates)
            return _instances(http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context), headers)
        places = {place[0] for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, http.client.HTTPException, ValueError):
        return ()
    found: list[Instance] = []
    for place in sorted(map(str, places)):
        try:
            found += _instances(http.client.HTTPConnection(place, port, timeout=TIMEOUT), headers)
        except (OSError, http.client.HTTPException, ValueError):
            continue
    return tuple(found)


def _instances(connection: http.client.HTTPConnection, headers: Mapping[str, str]) -> tuple[Instance, ...]:
    try:
        connection.request("GET", "/peers", headers=dict(headers))
        response = connection.getresponse()
        body = response.read(LONGEST + 1)
    finally:
        connection.close()
    if response.status != 200 or len(body) > LONGEST:
        raise ValueError("no answer of a mesh")
    try:
        return PeersAnswer.model_validate_json(body).instances
    except ValidationError as problem:
        raise ValueError("no answer of a mesh") from problem
