"""An address that the process has: who serves there may change, and clients that come in between wait."""

from __future__ import annotations

import asyncio
import os
import socket
from functools import partial

import anyio.abc

from mesh.config.listeners import ListenerName
from mesh.config.values import Address
from mesh.listener.target import Target
from mesh.listener.tls import BACKLOG, TlsListener


class BoundAddress:
    """An address of the process, and what serves it. bound: has the address, and accepts nothing by itself."""

    def __init__(self, bound: asyncio.Server) -> None:
        self._bound = bound
        self._serving: list[asyncio.Server | TlsListener] = []

    @classmethod
    async def bind(cls, address: Address) -> BoundAddress:
        """Takes the address at once; clients are refused until somebody serves there. OSError if it is not free."""
        loop = asyncio.get_running_loop()
        return cls(
            await loop.create_server(
                asyncio.Protocol, address.host, address.port, reuse_address=True, start_serving=False
            )
        )

    async def serve(self, target: Target, node: int | None, listener: ListenerName, tasks: anyio.abc.TaskGroup) -> None:
        """node: whose address it is, as Metadata calls it; None if it is no node's. listener: whose it is."""
        accept = partial(target.accept, node, listener)
        if target.listener.security.tls_of(listener) is not None:
            encrypted = TlsListener(self._bound, target.listener, accept, tasks, listener)
            await encrypted.start_serving()
            self._serving.append(encrypted)
            return
        for each in self._bound.sockets:
            own = socket.socket(fileno=os.dup(each.fileno()))
            self._serving.append(await asyncio.get_running_loop().create_server(accept, sock=own, backlog=BACKLOG))

    def pause(self) -> None:
        """Nobody serves there; clients that come wait until somebody does."""
        for listener in self._serving:
            listener.close()
        self._serving.clear()

    def close(self) -> None:
        self.pause()
        self._bound.close()
