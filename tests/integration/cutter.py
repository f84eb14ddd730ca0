"""A TCP relay that resets a connection in the middle of a Produce: of its request, or of its answer."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from enum import Enum, auto
from functools import partial

from tests.integration.relay import Relay

_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: with a timeout of 0, close() sends RST
_PRODUCE = b"\0\0"
_API = slice(4, 6)


class Place(Enum):
    """The point at which to cut a connection. REQUEST: half of a Produce has passed. ANSWER: all of it, but no byte of
    the answer."""

    REQUEST = auto()
    ANSWER = auto()


class Cutter(Relay):
    """Listens at other addresses in place of the given ones, and cuts the connections over which the next Produce
    requests come. cuts: how many it has cut."""

    def __init__(self) -> None:
        super().__init__()
        self._places: deque[Place] = deque()
        self.cuts = 0

    def stand_at(self, own: str, address: str) -> None:
        """own: the address to listen at for this one."""
        (own_host, _, own_port), (host, _, port) = own.rpartition(":"), address.rpartition(":")

        async def serve() -> None:
            await asyncio.start_server(partial(self._relay, host, int(port)), own_host, int(own_port))

        asyncio.run_coroutine_threadsafe(serve(), self._loop).result(10)

    def cut_next(self, place: Place) -> None:
        self._places.append(place)

    async def _relay(self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, upward = await asyncio.open_connection(host, port)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, upward}
        self._open |= ends
        is_cut = asyncio.Event()
        try:
            await asyncio.gather(
                self._pass_requests(reader, upward, writer, is_cut),
                self._pass_answers(upstream, writer, upward, is_cut),
            )
        finally:
            self._open -= ends

    async def _pass_requests(
        self,
        reader: asyncio.StreamReader,
        upward: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
        is_cut: asyncio.Event,
    ) -> None:
        """is_cut: set when the next answer must not pass."""
        try:
            while data := await reader.read(_CHUNK):
                place = self._places.popleft() if self._places and data[_API] == _PRODUCE else None
                upward.write(data[: len(data) // 2] if place is Place.REQUEST else data)
                await upward.drain()
                if place is Place.REQUEST:
                    self._reset(writer, upward)
                    return
                if place is Place.ANSWER:
                    is_cut.set()
        except OSError:
            pass
        finally:
            upward.close()

    async def _pass_answers(
        self,
        upstream: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upward: asyncio.StreamWriter,
        is_cut: asyncio.Event,
    ) -> None:
        try:
            while data := await upstream.read(_CHUNK):
                if is_cut.is_set():
                    self._reset(writer, upward)
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def _reset(self, *writers: asyncio.StreamWriter) -> None:
        self.cuts += 1
        for writer in writers:
            if not writer.is_closing():
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
