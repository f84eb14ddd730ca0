"""The common behaviour of all shipped plugins, and the special one of each."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote

import pytest

from mesh.streams.description import SourceNode, Subtopology, TopologyDescription
from mesh.streams.spi import PermanentFailure, TopologyPlugin
from mesh.topology_plugins.http import HttpOptions, HttpPlugin
from mesh.topology_plugins.in_store import DESCRIPTION, StorePlugin
from mesh.topology_plugins.memory import MemoryPlugin
from mesh.upstream.store.documents import DocumentTooLarge, StoreUnavailable, StoreUnreadable
from tests.upstream.harness import run
from tests.upstream.store.memory import MemoryStore

ONE = TopologyDescription((Subtopology("0", (SourceNode("in", ("orders",)),)),))
OTHER = TopologyDescription((Subtopology("1", ()),))


class Service(BaseHTTPRequestHandler):
    """Keeps bodies by path; answers with `refusal` instead, if there is one."""

    bodies: ClassVar[dict[str, bytes]] = {}
    tokens: ClassVar[list[str | None]] = []
    refusal: ClassVar[tuple[int, bytes] | None] = None

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._goes_on():
            self.bodies[unquote(self.path)] = body
            self._say(204)

    def do_GET(self) -> None:
        if self._goes_on():
            body = self.bodies.get(unquote(self.path))
            self._say(404 if body is None else 200, body or b"")

    def do_DELETE(self) -> None:
        if self._goes_on():
            self._say(404 if self.bodies.pop(unquote(self.path), None) is None else 204)

    def log_message(self, format: str, *args: object) -> None: ...

    def _goes_on(self) -> bool:
        self.tokens.append(self.headers["Authorization"])
        if self.refusal is not None:
            self._say(*self.refusal)
        return self.refusal is None

    def _say(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def service() -> Iterator[str]:
    Service.bodies, Service.tokens, Service.refusal = {}, [], None
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/topologies"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def http(url: str, token: str | None = None) -> HttpPlugin:
    return HttpPlugin(HttpOptions(url=url, token=token), "front")


@pytest.fixture(params=["memory", "store", "http"])
def plugin(request: pytest.FixtureRequest) -> Iterator[Callable[[], TopologyPlugin]]:
    """Makes a plugin, on the loop."""
    with service() as url:
        yield {
            "memory": lambda: MemoryPlugin(MemoryPlugin.options(), "front"),
            "store": lambda: StorePlugin(StorePlugin.options(), "front", MemoryStore()),
            "http": lambda: http(url),
        }[request.param]


def test_what_was_set_is_got_until_it_is_deleted(plugin: Callable[[], TopologyPlugin]) -> None:
    async def test() -> None:
        made = plugin()
        group = "a/b c?é"
        assert await made.get_topology(group, 3) is None
        await made.delete_topology(group)
        await made.set_topology(group, 3, ONE)
        await made.set_topology("other", 3, OTHER)
        assert (await made.get_topology(group, 3), await made.get_topology(group, 4)) == (ONE, None)
        await made.set_topology(group, 4, OTHER)
        await made.set_topology(group, 4, OTHER)
        assert (await made.get_topology(group, 3), await made.get_topology(group, 4)) == (None, OTHER)
        await made.delete_topology(group)
        await made.delete_topology(group)
        assert (await made.get_topology(group, 4), await made.get_topology("other", 3)) == (None, OTHER)
        await made.close()

    run(test)


def test_the_store_may_be_away_or_hold_what_is_none() -> None:
    async def test() -> None:
        store = MemoryStore()
        made = StorePlugin(StorePlugin.options(), "front", store)
        await store.put(DESCRIPTION, "front", "g", {"epoch": 3, "description": {"subtopologies": 7}})
        with pytest.raises(StoreUnreadable):
            await made.get_topology("g", 3)
        store.away = "no broker"
        with pytest.raises(StoreUnavailable):
            await made.set_topology("g", 3, ONE)

    run(test)


def test_what_the_topic_does_not_take_is_refused_for_good() -> None:
    class Small(MemoryStore):
        async def put(self, *_: object) -> None:
            raise DocumentTooLarge("a document of 9 bytes")

    async def test() -> None:
        with pytest.raises(PermanentFailure, match="a document of 9 bytes"):
            await StorePlugin(StorePlugin.options(), "front", Small()).set_topology("g", 3, ONE)

    run(test)


def test_the_service_is_told_the_epoch_and_who_asks() -> None:
    async def test() -> None:
        with service() as url:
            await http(url, "secret").set_topology("g", 3, ONE)
            body = json.loads(Service.bodies["/topologies/front/g"])
        assert body["epoch"] == 3
        assert body["description"]["subtopologies"][0]["nodes"][0]["source_topics"] == ["orders"]
        assert Service.tokens == ["Bearer secret"]

    run(test)


@pytest.mark.parametrize(
    ("status", "is_permanent"), [(400, True), (413, True), (408, False), (429, False), (503, False)]
)
def test_what_the_service_refuses_is_told(status: int, is_permanent: bool) -> None:
    async def test() -> None:
        with service() as url:
            Service.refusal = status, b"not today"
            made = http(url)
            with pytest.raises(PermanentFailure if is_permanent else OSError, match=f"answered {status}: not today"):
                await made.set_topology("g", 3, ONE)
            for asked in (made.get_topology("g", 3), made.delete_topology("g")):
                with pytest.raises(OSError, match="not today"):
                    await asked

    run(test)


def test_a_service_that_is_not_there_is_a_failure_that_may_pass() -> None:
    async def test() -> None:
        with service() as url:
            pass
        made = http(url)
        with pytest.raises(OSError):
            await asyncio.wait_for(made.set_topology("g", 3, ONE), 30)

    run(test)
