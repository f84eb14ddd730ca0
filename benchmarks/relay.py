"""`python -m benchmarks.relay PORT TARGET_PORT`: passes bytes on, and knows nothing of Kafka. What any hop costs."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop


class Relay(asyncio.Protocol):
    """One direction of a relay; the other end's transport gets the data read here."""

    def __init__(self, target: int | None) -> None:
        self._target = target
        self._transport: asyncio.Transport | None = None
        self.other: Relay | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._target is not None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect(self._target))

    async def _connect(self, port: int) -> None:
        try:
            _, other = await asyncio.get_running_loop().create_connection(lambda: Relay(None), "127.0.0.1", port)
        except OSError:
            assert self._transport is not None
            self._transport.close()
            return
        self.other, other.other = other, self
        for data in self._early:
            other.write(data)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        else:
            self.other.write(data)

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()


async def serve(port: int, target: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Relay(target), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
