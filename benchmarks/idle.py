"""Resident memory of the processes in front of the broker, for each idle connected client."""

from __future__ import annotations

import asyncio
import struct

from benchmarks.bed import Target
from benchmarks.machine import resident_kib
from mesh.listener.limits import raise_descriptor_limit

AT_ONCE = 50
"""Clients that connect at the same time."""
WARM_UP = 20
"""Clients whose memory does not count: with the first of them all shared objects exist."""
SETTLE = 1.0
"""Seconds until the memory of the last requests is free."""
_API_VERSIONS, _METADATA = (18, 0, b""), (3, 4, struct.pack(">i?", 0, False))
"""Key, version and body; of Metadata, for no topic."""


def measure(target: Target, clients: int) -> float:
    """KiB for each client that has sent ApiVersions and Metadata."""
    raise_descriptor_limit()
    return asyncio.run(_measure(target, clients))


async def _measure(target: Target, clients: int) -> float:
    writers = await _connect(target, WARM_UP)
    try:
        await asyncio.sleep(SETTLE)
        before = sum(map(resident_kib, target.pids))
        writers += await _connect(target, clients)
        await asyncio.sleep(SETTLE)
        return (sum(map(resident_kib, target.pids)) - before) / clients
    finally:
        for writer in writers:
            writer.close()


async def _connect(target: Target, clients: int) -> list[asyncio.StreamWriter]:
    """Connects this many clients, until they have their answers."""
    host, _, port = target.bootstrap_servers.rpartition(":")
    free = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> asyncio.StreamWriter:
        async with free:
            reader, writer = await asyncio.open_connection(host, int(port))
            for api_key, version, body in (_API_VERSIONS, _METADATA):
                client_id = f"idle-{number}".encode()
                head = struct.pack(">hhih", api_key, version, number, len(client_id)) + client_id
                writer.write(struct.pack(">i", len(head) + len(body)) + head + body)
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            return writer

    return list(await asyncio.gather(*map(one, range(clients))))
