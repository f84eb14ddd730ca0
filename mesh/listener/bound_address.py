"""An address of the process. It has one target at a time, which may change; clients that connect in between wait."""

from __future__ import annotations

import asyncio
import os
import socket
from functools import partial
from typing import TypeAlias

from mesh.config.listeners import ListenerName
from mesh.config.values import Address
from mesh.listener.target import Target
from mesh.listener.tls import BACKLOG, TlsListener
from mesh.tasks import Tasks

Place: TypeAlias = tuple[str, int]
"""The numeric host and the port of a socket."""


class BoundAddress:
    """An address of the process, and the target that is served there. bound: has the address, and accepts no
    connections itself."""

    def __init__(self, bound: asyncio.Server) -> None:
        self._bound = bound
        self._spare: list[socket.socket] = []
        """The sockets for the next target."""
        self._serving: list[asyncio.Server | TlsListener] = []
        self._target: Target | None = None
        """The target that is served."""

    @classmethod
    async def bind(cls, address: Address, *, is_common: bool = False) -> BoundAddress:
        """Takes the address at once. Clients are refused until a target is served there. Raises OSError if it is not
        free.

        is_common: other processes take the same address, and the kernel divides the clients between them.
        """
        loop = asyncio.get_running_loop()
        return cls(
            await loop.create_server(
                asyncio.Protocol,
                address.host,
                address.port,
                reuse_address=True,
                reuse_port=is_common,
                start_serving=False,
            )
        )

    @property
    def places(self) -> frozenset[Place]:
        """The places of its sockets. A name of a host may have several."""
        return frozenset(each.getsockname()[:2] for each in self._bound.sockets)

    async def serve(self, target: Target, node: int | None, listener: ListenerName, tasks: Tasks) -> None:
        """Serves a target here, in place of the one that is served. node: the id of the address's node, as in Metadata;
        None for a bootstrap address. listener: the listener of the address."""
        self.reserve()
        self._stop_serving()
        self._target = target
        sockets, self._spare = self._spare, []
        accept = partial(target.accept, node, listener)
        if target.listener.security.tls_of(listener) is not None:
            encrypted = TlsListener(sockets, target.listener, accept, tasks, listener)
            await encrypted.start_serving()
            self._serving.append(encrypted)
            return
        for own in sockets:
            self._serving.append(await asyncio.get_running_loop().create_server(accept, sock=own, backlog=BACKLOG))

    def reserve(self) -> None:
        """Takes the descriptors that the next `serve` needs. Raises OSError if none are left."""
        if not self._spare:
            for each in self._bound.sockets:
                self._spare.append(socket.socket(fileno=os.dup(each.fileno())))

    def release(self) -> None:
        """Gives back what `reserve` has taken."""
        for each in self._spare:
            each.close()
        self._spare.clear()

    def pause(self, target: Target) -> None:
        """Stops serving a target, unless another one is served by now. Clients that connect wait until the next target
        is served."""
        if target is self._target:
            self._stop_serving()

    def close(self) -> None:
        self._stop_serving()
        self.release()
        self._bound.close()

    def _stop_serving(self) -> None:
        for listener in self._serving:
            listener.close()
        self._serving.clear()
        self._target = None
