"""A stranger in a separate process, at its own address, that repeats one kind of request as often as it can.

    python -m tests.listener.flood KIND PORT

Writes a line when it has begun, and ends with its standard input. Then it writes a number: of the answers that it got,
or of the connections that are still open (KIND idle).
"""

from __future__ import annotations

import asyncio
import itertools
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from mesh.wire.apis import ApiKey
from tests.pool.apis.harness import join_values
from tests.pool.apis.messages import Conversation
from tests.pool.harness import GROUP, ORDERS
from tests.wire.entities import frame

HOST = "127.0.0.2"
CONNECTIONS = 20
IDLE = 10_000
LATEST = (1 << 53) - 1

_numbers = itertools.count()


def _fetch(client: Conversation, offset: int = 0, wait: int = 0) -> bytes:
    partitions = tuple({"partition": at, "fetch_offset": offset, "partition_max_bytes": 1 << 20} for at in range(4))
    topics = ({"topic": ORDERS, "partitions": partitions},)
    return client.bytes_of(ApiKey.FETCH, 11, max_wait=wait, min_bytes=1, max_bytes=1 << 20, topics=topics)


def _commit(client: Conversation) -> bytes:
    partitions = tuple({"partition_index": at, "committed_offset": 5} for at in range(4))
    named = {"group_id": GROUP, "member_id": "nobody", "generation_id_or_member_epoch": 1}
    return client.bytes_of(ApiKey.OFFSET_COMMIT, 5, **named, topics=({"name": ORDERS, "partitions": partitions},))


def _unnamed(client: Conversation) -> bytes:
    topics = ({"name": ORDERS, "partition_indexes": (0, 1, 2, 3)},)
    return client.bytes_of(ApiKey.OFFSET_FETCH, 3, group_id=f"unnamed-{next(_numbers) % 100}", topics=topics)


FLOODS: Mapping[str, Callable[[Conversation], bytes]] = {
    "fetch": _fetch,
    "latest": lambda client: _fetch(client, LATEST),
    "join": lambda client: client.bytes_of(ApiKey.JOIN_GROUP, 4, **join_values(member_id="")),
    "groups": lambda client: client.bytes_of(
        ApiKey.JOIN_GROUP, 3, **join_values(member_id="", group_id=f"group-{next(_numbers)}")
    ),
    "commit": _commit,
    "unnamed": _unnamed,
    "versions": lambda _: frame(b"\0\x12\0\x63" + bytes(4)),
}


async def flood(kind: str, port: int) -> None:
    answers = Answers()
    async with anyio.create_task_group() as tasks:
        for number in range(CONNECTIONS):
            tasks.start_soon(_one, FLOODS[kind], port, number, answers)
        print("begun", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        tasks.cancel_scope.cancel()
    print(answers.count, flush=True)


@dataclass(slots=True)
class Answers:
    """The number of answers that were received whole, over all connections."""

    count: int = 0

    def take(self, received: bytes) -> bytes:
        """Counts the frames in the bytes of one connection; returns the beginning of a frame that is not whole."""
        at = 0
        while len(received) >= at + 4 and len(received) >= at + 4 + int.from_bytes(received[at : at + 4], "big"):
            at += 4 + int.from_bytes(received[at : at + 4], "big")
            self.count += 1
        return received[at:]


async def _one(make: Callable[[Conversation], bytes], port: int, number: int, answers: Answers) -> None:
    client = Conversation(f"stranger-{number}")
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(HOST, 0))
            received = b""
            while not reader.at_eof():
                writer.write(b"".join(make(client) for _ in range(50)))
                with anyio.move_on_after(0.01):
                    received = answers.take(received + await reader.read(1 << 20))
                await writer.drain()
        except OSError:
            await asyncio.sleep(0.01)


async def idle(port: int) -> None:
    """So many connections that send nothing, or half a frame."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    writers = []
    for number in range(IDLE):
        _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(HOST, 0))
        writer.write((b"", b"\0\0\x10\0", frame(bytes(100))[:-1])[number % 3])
        writers.append(writer)
    print("begun", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(sum(not writer.transport.is_closing() for writer in writers), flush=True)


class Stranger:
    """Such a process, while in the context. answer: its output at the end."""

    def __init__(self, kind: str, port: int) -> None:
        command = [sys.executable, "-m", "tests.listener.flood", kind, str(port)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, **pipes)
        self.answer = ""

    async def __aenter__(self) -> Stranger:
        assert self._process.stdout is not None
        assert (await asyncio.to_thread(self._process.stdout.readline)).strip() == "begun"
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            self.answer, _ = await asyncio.to_thread(self._process.communicate, "", 60)
        finally:
            self._process.kill()


if __name__ == "__main__":
    asyncio.run(idle(int(sys.argv[2])) if sys.argv[1] == "idle" else flood(sys.argv[1], int(sys.argv[2])))
