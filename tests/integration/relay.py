"""A TCP relay. A test can cut its connections, or slow them down, while both ends go on."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from functools import partial

from tests.integration.processes import free_port

_CHUNK = 1 << 16
_SLOW_CHUNK = 1 << 10
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: with a timeout of 0, close() sends RST


class Relay:
    """A thread that listens on a new address for each address that it stands in front of."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._rate: float | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def stand_in_for(self, address: str) -> str:
        """The address to connect to instead of this one."""
        host, _, port = address.rpartition(":")
        own = free_port()

        async def serve() -> None:
            await asyncio.start_server(partial(self._relay, host, int(port)), host, own)

        asyncio.run_coroutine_threadsafe(serve(), self._loop).result(10)
        return f"{host}:{own}"

    def slow(self, bytes_per_second: float | None) -> None:
        """Limits each connection to this rate, each way; None for no limit."""
        self._rate = bytes_per_second

    def cut(self) -> int:
        """Resets all connections, both ways; returns their number."""

        async def reset() -> int:
            count = len(self._open) // 2
            for writer in self._open:
                if writer.is_closing():
                    continue
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
            return count

        return asyncio.run_coroutine_threadsafe(reset(), self._loop).result(10)

    def close(self) -> None:
        """Cuts everything, and stops listening."""
        self.cut()

        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _relay(self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, upward = await asyncio.open_connection(host, port)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, upward}
        self._open |= ends
        try:
            await asyncio.gather(self._copy(reader, upward), self._copy(upstream, writer))
        finally:
            self._open -= ends

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_CHUNK if self._rate is None else _SLOW_CHUNK):
                if (rate := self._rate) is not None:
                    await asyncio.sleep(len(data) / rate)  # sleeping sets the rate, which matters here
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
