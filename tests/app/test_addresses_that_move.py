"""Reloads in which an address of one virtual cluster becomes one of another: clients reach the new one from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from mesh.config.listeners import FIRST, ListenerName
from mesh.runtime.relay.runtime import RelayRuntime
from tests.app.test_refused_reloads import running
from tests.integration.processes import free_ports

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

Tree = dict[str, Any]


class Naming(asyncio.Protocol):
    """A connection that sends the name of its virtual cluster, and ends."""

    def __init__(self, name: str) -> None:
        self._name = name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writable = cast(asyncio.WriteTransport, transport)
        writable.write(self._name.encode())
        writable.close()


def accept(target: Any, _node: int | None = None, _listener: ListenerName = FIRST) -> Naming:
    return Naming(target.name)


async def named_at(address: str) -> str:
    """The virtual cluster that a client reaches."""
    host, port = address.split(":")
    with anyio.fail_after(30):
        async with await anyio.connect_tcp(host, int(port)) as stream:
            return (await stream.receive()).decode()


def addresses_of(virtual_cluster: Tree) -> list[str]:
    return [virtual_cluster["listen"], f"127.0.0.1:{virtual_cluster['nodes']['ports']}"]


def swap_nodes(one: Tree, two: Tree) -> list[Tree]:
    one["nodes"], two["nodes"] = two["nodes"], one["nodes"]
    return [one, two]


def swap_listen(one: Tree, two: Tree) -> list[Tree]:
    one["listen"], two["listen"] = two["listen"], one["listen"]
    return [one, two]


def listen_at_a_node(one: Tree, two: Tree) -> list[Tree]:
    """A virtual cluster that starts again takes an address that another one leaves in place."""
    (port,) = free_ports(1)
    two["listen"] = f"127.0.0.1:{one['nodes']['ports']}"
    one["nodes"] = {"ports": port, "ids": [1]}
    return [one, two]


def add_at_a_node(one: Tree, two: Tree) -> list[Tree]:
    """A new virtual cluster takes addresses that two others leave in place."""
    ports = free_ports(2)
    new = {**one, "name": "new", "listen": f"127.0.0.1:{two['nodes']['ports']}", "nodes": one["nodes"]}
    one["nodes"], two["nodes"] = ({"ports": port, "ids": [1]} for port in ports)
    return [one, two, new]


@pytest.mark.parametrize("move", [swap_nodes, swap_listen, listen_at_a_node, add_at_a_node])
async def test_an_address_moves_to_another_virtual_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: Callable[[Tree, Tree], list[Tree]]
) -> None:
    monkeypatch.setattr(RelayRuntime, "accept", accept)
    async with running(tmp_path, monkeypatch) as bed:
        bed.tree["virtual_clusters"] = move(*bed.tree["virtual_clusters"])
        bed.write()
        status, answer = await bed.reload()
        assert (status, answer["problems"]) == (200, [])
        for configured in bed.tree["virtual_clusters"]:
            assert [await named_at(each) for each in addresses_of(configured)] == [configured["name"]] * 2
