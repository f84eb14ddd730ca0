from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mesh.admin.access import AdminAccess
from mesh.admin.http import bind_admin, serve_admin
from mesh.config import Address, ConfigurationError
from mesh.telemetry.metric_definitions import MEMBERS, MetricSample
from mesh.telemetry.metrics import Metrics


@dataclass(slots=True)
class State:
    missing: list[str] = field(default_factory=list)
    wrong: list[dict[str, object]] = field(default_factory=list)

    def problems(self) -> list[str]:
        return self.missing

    def status(self) -> dict[str, object]:
        return {"virtual_clusters": []}

    def drain(self, method: str, asked: Mapping[str, str]) -> tuple[int, dict[str, object]]:
        return (200, {"method": method, **asked}) if asked else (400, {"problem": "group: name the group"})

    async def reload(self, method: str) -> tuple[int, dict[str, object]]:
        return 202, {"method": method}

    def degraded(self) -> list[dict[str, object]]:
        return self.wrong


def free_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1])


async def get(
    address: Address, path: str, method: str = "GET", host: str = "localhost", token: str | None = None
) -> tuple[int, str, bytes]:
    """Status, content type and body, over a new connection."""
    credentials = f"Authorization: Bearer {token}\r\n" if token is not None else ""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{credentials}Connection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    status, *headers = head.decode().split("\r\n")
    types = [line.partition(": ")[2] for line in headers if line.lower().startswith("content-type:")]
    return int(status.split()[1]), types[0], body


def while_served(test: Callable[[Address, State, Metrics], Awaitable[None]], access: AdminAccess | None = None) -> None:
    async def run() -> None:
        address, state, metrics = free_address(), State(), Metrics()
        async with anyio.create_task_group() as tasks:
            await tasks.start(partial(serve_admin, access=access), bind_admin(address), state, metrics)
            await test(address, state, metrics)
            tasks.cancel_scope.cancel()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address.host, address.port)

    anyio.run(run)


def test_health_and_readiness() -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        assert (await get(address, "/healthz"))[0] == 200
        assert (await get(address, "/readyz"))[0] == 200
        state.wrong = [{"cluster": "us", "what": "upstream cluster unreachable"}]
        status, _, body = await get(address, "/readyz")
        assert (status, json.loads(body)) == (200, {"ready": True, "problems": [], "degraded": state.wrong})
        state.missing = ["not listening yet"]
        status, kind, body = await get(address, "/readyz")
        assert (status, kind) == (503, "application/json")
        assert json.loads(body) == {"ready": False, "problems": ["not listening yet"], "degraded": state.wrong}
        assert (await get(address, "/healthz"))[0] == 200

    while_served(test)


def test_metrics() -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        metrics.add_collector(lambda: [MetricSample(MEMBERS, ("shop", "billing"), 3)])
        status, kind, body = await get(address, "/metrics")
        assert status == 200
        assert kind.startswith("text/plain; version=")
        families = {family.name: family for family in text_string_to_metric_families(body.decode())}
        assert families["kafka_mesh_members"].samples[0].value == 3

    while_served(test)


def test_index_and_unknown_paths() -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        status, _, body = await get(address, "/")
        assert status == 200
        assert b"/metrics" in body
        assert (await get(address, "/elsewhere"))[0] == 404

    while_served(test)


def test_signals_stay_with_the_process() -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        assert signal.getsignal(signal.SIGTERM) is before

    before = signal.getsignal(signal.SIGTERM)
    while_served(test)


def test_open_connections_do_not_delay_the_end() -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"ok\n")  # kept alive, and left open

    while_served(test)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_draining_is_asked_for(method: str) -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        status, kind, body = await get(address, "/drain?group=a%20b&virtual_cluster=vc", method)
        assert (status, kind) == (200, "application/json")
        assert json.loads(body) == {"method": method, "group": "a b", "virtual_cluster": "vc"}
        assert (await get(address, "/drain", method))[0] == 400

    while_served(test)


@pytest.mark.parametrize("path", ["/drain?group=a", "/leases", "/whatever/is/added"])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_page_in_a_browser_changes_nothing(method: str, path: str) -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        request = f"{head}Origin: https://evil.example\r\n\r\n"
        writer.write(request.encode())
        assert (await reader.readline()).split()[1] == b"403"
        writer.close()

    while_served(test)


NAMED = AdminAccess(hosts=frozenset({"mesh.example"}))
WITH_TOKEN = AdminAccess("a-token-of-the-mesh")


@pytest.mark.parametrize(
    ("access", "host", "path", "status"),
    [
        (AdminAccess(), "127.0.0.1:9644", "/status", 200),
        (AdminAccess(), "[::1]:9644", "/status", 200),
        (AdminAccess(), "[::1]", "/metrics", 200),
        (AdminAccess(), "LocalHost", "/status", 200),
        (AdminAccess(), "rebound.example:9644", "/status", 403),
        (AdminAccess(), "localhost.rebound.example", "/status", 403),
        (AdminAccess(), "127.0.0.1.rebound.example", "/", 403),
        (AdminAccess(), "rebound.example:9644", "/healthz", 200),
        (AdminAccess(), "rebound.example:9644", "/readyz", 200),
        (NAMED, "Mesh.Example.:9644", "/status", 200),
        (NAMED, "rebound.example:9644", "/status", 403),
        (WITH_TOKEN, "rebound.example:9644", "/status", 401),
        (WITH_TOKEN, "rebound.example:9644", "/", 200),
    ],
)
def test_a_page_whose_name_leads_here_reads_nothing(access: AdminAccess, host: str, path: str, status: int) -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        assert (await get(address, path, host=host))[0] == status

    while_served(test, access)


@pytest.mark.parametrize(
    ("access", "host", "token", "is_shown"),
    [
        (AdminAccess(), "localhost", None, True),
        (AdminAccess(), "rebound.example", None, False),
        (WITH_TOKEN, "localhost", None, False),
        (WITH_TOKEN, "localhost", "another-token", False),
        (WITH_TOKEN, "mesh.example", "a-token-of-the-mesh", True),
        (AdminAccess("a-token-of-the-mesh", is_loopback=True), "localhost", None, True),
    ],
)
def test_readiness_has_reasons_for_operators_only(
    access: AdminAccess, host: str, token: str | None, is_shown: bool
) -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        state.missing, state.wrong = ["not listening yet"], [{"cluster": "us"}]
        status, _, body = await get(address, "/readyz", host=host, token=token)
        details = {"problems": state.missing, "degraded": state.wrong} if is_shown else {}
        assert (status, json.loads(body)) == (503, {"ready": False, **details})

    while_served(test, access)


def test_draining_is_not_asked_for_by_other_methods() -> None:
    async def test(address: Address, state: State, metrics: Metrics) -> None:
        assert (await get(address, "/drain?group=a", "PUT"))[0] == 405
        assert (await get(address, "/status", "POST"))[0] == 405

    while_served(test)


def test_a_port_that_is_taken() -> None:
    async def run(address: Address) -> None:
        with pytest.raises(ConfigurationError, match=f"admin.listen: {address}: an address that is free"):
            bind_admin(address)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        anyio.run(run, Address("127.0.0.1", taken.getsockname()[1]))


def test_a_host_that_does_not_exist() -> None:
    async def run() -> None:
        with pytest.raises(ConfigurationError, match="an address that is free"):
            bind_admin(Address("does-not-exist.invalid", 1))

    anyio.run(run)
