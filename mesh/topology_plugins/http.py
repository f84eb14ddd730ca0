"""The plugin `http` gives descriptions to a service: PUT, GET and DELETE of URL/VIRTUAL_CLUSTER/GROUP, as JSON."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

from pydantic import Field, StringConstraints

from mesh.streams.description import TopologyDescription, description_of, tree_of
from mesh.streams.spi import NoOptions, PermanentFailure, TopologyPlugin

LARGEST_BODY: Final = 64 << 20
"""The most bytes of a response."""
MOST_AT_ONCE: Final = 8
"""The most requests in flight; others wait."""
TIMEOUT: Final = 9.0
"""Seconds without data from the service."""
_MAY_PASS: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_CLIENT_ERRORS: Final = range(400, 500)


class HttpOptions(NoOptions):
    """The options of the plugin `http`. url: without a slash at its end. token: sent with requests as a bearer
    token."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#]+[^\s?#/]$")] = Field(
        description="http:// or https:// and the beginning of a path, without a slash at its end"
    )
    token: str | None = Field(default=None, repr=False, description="what requests carry as Authorization: Bearer")


class HttpPlugin(TopologyPlugin):
    """A plugin that gives descriptions to a service. If the service answers a PUT with a status from 400 to 499, the
    refusal is permanent, except for statuses that may pass. The client gets the text of the response."""

    options = HttpOptions

    def __init__(self, options: HttpOptions, virtual_cluster: str) -> None:
        super().__init__(options, virtual_cluster)
        self._options = options
        self._base = f"{options.url}/{quote(virtual_cluster, safe='')}"
        self._room = asyncio.Semaphore(MOST_AT_ONCE)

    async def set_topology(self, group: str, epoch: int, description: TopologyDescription) -> None:
        body = json.dumps({"epoch": epoch, "description": tree_of(description)}).encode()
        status, answer = await self._ask("PUT", group, body)
        if status in _CLIENT_ERRORS and status not in _MAY_PASS:
            raise PermanentFailure(_text(status, answer))
        _check(status, answer)

    async def get_topology(self, group: str, epoch: int) -> TopologyDescription | None:
        status, answer = await self._ask("GET", group)
        if status == HTTPStatus.NOT_FOUND:
            return None
        _check(status, answer)
        document = json.loads(answer)
        return description_of(document["description"]) if document["epoch"] == epoch else None

    async def delete_topology(self, group: str) -> None:
        status, answer = await self._ask("DELETE", group)
        if status != HTTPStatus.NOT_FOUND:
            _check(status, answer)

    async def _ask(self, method: str, group: str, body: bytes | None = None) -> tuple[int, bytes]:
        async with self._room:
            await asyncio.sleep(0)  # exceptions before the first await would count as permanent
            return await _in_thread(self._options, method, f"{self._base}/{quote(group, safe='')}", body)


async def _in_thread(options: HttpOptions, method: str, url: str, body: bytes | None) -> tuple[int, bytes]:
    """Sends a request in a thread of its own, so that a request that hangs delays no other work."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[int, bytes]] = loop.create_future()

    def end(result: tuple[int, bytes] | BaseException) -> None:
        if ended.done():
            return
        if isinstance(result, BaseException):
            ended.set_exception(result)
        else:
            ended.set_result(result)

    def ask() -> None:
        try:
            result: tuple[int, bytes] | BaseException = _ask(options, method, url, body)
        except BaseException as problem:  # noqa: BLE001 - told to whoever waits
            result = problem
        if not loop.is_closed():
            loop.call_soon_threadsafe(end, result)

    threading.Thread(target=ask, name="topology service", daemon=True).start()
    return await ended


def _ask(options: HttpOptions, method: str, url: str, body: bytes | None) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if options.token is not None:
        headers["Authorization"] = f"Bearer {options.token}"
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            status, answer = response.status, response.read(LARGEST_BODY + 1)
    except urllib.error.HTTPError as refusal:
        with refusal:
            status, answer = refusal.code, refusal.read(LARGEST_BODY + 1)
    if len(answer) > LARGEST_BODY:
        raise ValueError(f"an answer of more than {LARGEST_BODY} bytes")
    return status, answer


def _check(status: int, answer: bytes) -> None:
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise OSError(_text(status, answer))


def _text(status: int, answer: bytes) -> str:
    """Returns the text of a failure, for a client."""
    said = answer[:200].decode(errors="replace").strip()
    return f"The topology service answered {status}: {said}" if said else f"The topology service answered {status}."
