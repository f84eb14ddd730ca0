"""The bytes that pass between two ends, and the record batches in them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from struct import Struct

from mesh.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, RecordBatch, body_of, is_compressed, is_intact
from tests.integration.relay import Relay

_HEAD = Struct(">qi")
_MAGIC_AT = 16
_ATTRIBUTES_AT = 22


class Capture(Relay):
    """A relay that keeps its traffic."""

    def __init__(self) -> None:
        super().__init__()
        self._streams: list[bytearray] = []

    def stand_at(self, own: str, address: str) -> None:
        """Redirects connections from one address to the other."""
        host, _, port = address.rpartition(":")
        here, _, at = own.rpartition(":")

        async def serve() -> None:
            await asyncio.start_server(partial(self._relay, host, int(port)), here, int(at))

        asyncio.run_coroutine_threadsafe(serve(), self._loop).result(10)

    def streams(self) -> list[bytes]:
        """The bytes of each connection so far, each way."""
        return [bytes(stream) for stream in self._streams]

    def forget(self) -> None:
        """Forgets the traffic so far."""
        for stream in self._streams:
            del stream[:]

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept = bytearray()
        self._streams.append(kept)
        try:
            while data := await reader.read(1 << 16):
                kept += data
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


def batches_in(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """All batches anywhere in it, found by their checksums: the codec of each, and its records in clear."""
    at = -1
    while (at := stream.find(b"\2", at + 1)) >= 0:
        begin = at - _MAGIC_AT
        if begin < 0 or begin + HEADER_SIZE > len(stream):
            continue
        _, length = _HEAD.unpack_from(stream, begin)
        end = begin + LENGTH_OVERHEAD + length
        if length < HEADER_SIZE - LENGTH_OVERHEAD or end > len(stream):
            continue
        batch = RecordBatch(bytearray(stream[begin:end]), 0, 0, 0, 0)
        if is_intact(batch):
            codec = stream[begin + _ATTRIBUTES_AT] & 7
            yield codec, body_of(batch) if is_compressed(batch) else stream[begin + HEADER_SIZE : end]
