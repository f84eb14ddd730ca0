"""The server in a child process under attack over real sockets, while a well-behaved client goes on."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import anyio

from mesh.records.decode import decode_records
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.listener.fuzz import MAX_GROWTH_KIB, child
from tests.pool.apis.harness import join_values
from tests.pool.apis.messages import Conversation
from tests.pool.harness import GROUP, MAXIMUM, ORDERS
from tests.records.reading import split_batches
from tests.wire.entities import frame
from tests.wire.fuzz import EXTREMES, hostile_request

PATIENCE = 60
"""Seconds that any step may take; only a hanging server takes longer."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an attack. cycles: how often the well-behaved client fetched, committed and sent a heartbeat.
    growth_kib: of the server."""

    requests: int
    cycles: int
    records: int
    growth_kib: int


class Victim:
    """The child process. When the context ends, it ends too, and reports how much it has grown."""

    def __init__(self, *arguments: str, files: int | None = None) -> None:
        """files: how many the child may open, within its limit."""

        def limit() -> None:
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        self._process = subprocess.Popen(
            child("--serve", *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def cpu(self) -> float:
        """The seconds of CPU that it has used, to a hundredth."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime: proc(5)

    def end_records(self) -> dict[str, int]:
        """Stops the records of the well-behaved group; returns how many each of its partitions has."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        ends: dict[str, int] = json.loads(self._process.stdout.readline())
        return ends

    def stop(self) -> int:
        """Returns its growth in KiB. Raises AssertionError if it failed."""
        output, errors = self._process.communicate("", timeout=PATIENCE)
        assert self._process.returncode == 0, errors[-4_000:]
        return int(output)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@asynccontextmanager
async def victim(*arguments: str, files: int | None = None) -> AsyncIterator[Victim]:
    running = Victim(*arguments, files=files)
    try:
        yield running
    finally:
        if running.is_alive:
            running.kill()


class WellBehaved(Conversation):
    """A client that joins, fetches, commits, and sends heartbeats, on one connection; fails at the first error. values:
    of all records that it got."""

    def __init__(self) -> None:
        super().__init__("well-behaved")
        self.values: list[bytes] = []
        self.cycles = 0
        self.records = 0
        self._cycle = asyncio.Event()

    async def live(self, port: int) -> None:
        """Runs until it is cancelled."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        joined = await self._ask(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
        member = {"group_id": GROUP, "member_id": joined.member_id, "generation_id": joined.generation_id}
        topics: tuple[dict[str, Any], ...] = ({"name": ORDERS, "partition_indexes": (0, 1, 2, 3)},)
        answer = await self._ask(ApiKey.OFFSET_FETCH, 3, group_id=GROUP, topics=topics)
        positions = {each.partition_index: each.committed_offset for each in answer.topics[0].partitions}
        while True:
            await self._fetch(positions)
            committed = tuple({"partition_index": at, "committed_offset": to} for at, to in positions.items())
            topics = ({"name": ORDERS, "partitions": committed},)
            epoch = {"generation_id_or_member_epoch": joined.generation_id}
            codes = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}  # if it is not stored within 3 s; clients send it again
            while ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in codes:
                answer = await self._ask(ApiKey.OFFSET_COMMIT, 5, **member, **epoch, topics=topics)
                codes = {ErrorCode(each.error_code) for each in answer.topics[0].partitions}
            assert codes == {ErrorCode.NONE}, codes
            assert (await self._ask(ApiKey.HEARTBEAT, 1, **member)).error_code == 0
            self.cycles += 1
            self._cycle.set()

    async def goes_on(self) -> None:
        """Returns when it has gone through a few more cycles, and got records."""
        cycles, records = self.cycles, self.records
        with anyio.fail_after(PATIENCE):
            while self.cycles < cycles + 3 or self.records == records:
                await self.cycle()

    async def cycle(self) -> None:
        """Returns when it has gone through one more cycle."""
        self._cycle.clear()
        await self._cycle.wait()

    async def _fetch(self, positions: dict[int, int]) -> None:
        partitions = tuple(
            {"partition": at, "fetch_offset": to, "partition_max_bytes": MAXIMUM} for at, to in positions.items()
        )
        asked = ({"topic": ORDERS, "partitions": partitions},)
        answer = await self._ask(ApiKey.FETCH, 11, max_wait=50, min_bytes=1, max_bytes=MAXIMUM, topics=asked)
        for each in answer.responses[0].partitions:
            assert each.error_code == 0
            if each.records:
                positions[each.partition_index] = self._note(each.records, positions[each.partition_index])

    def _note(self, data: bytes, position: int) -> int:
        """The position behind the records, which may be below the high watermark."""
        for batch in split_batches(bytes(data)):
            records = [record for record in decode_records(batch) if record.offset >= position]
            self.values += [record.value for record in records if record.value is not None]
            position = max([position, *(record.offset + 1 for record in records)])
        self.records = len(self.values)
        return position

    async def _ask(self, api_key: ApiKey, version: int, /, **values: Any) -> Any:
        with anyio.fail_after(PATIENCE):
            self._writer.write(self.bytes_of(api_key, version, **values))
            length = await self._reader.readexactly(4)
            body = await self._reader.readexactly(int.from_bytes(length, "big"))
        ((_, answer),) = self.answers(length + body)
        return answer


async def attack(seed: int, requests: int) -> Outcome:
    """Sends hostile requests over several connections at once. Raises AssertionError if the child fails."""
    client = WellBehaved()
    async with victim() as target:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.live, target.port)
            async with anyio.create_task_group() as attackers:
                for number in range(4):
                    attackers.start_soon(_attack, Random(seed + number), target.port, requests // 4)
            await client.goes_on()
            tasks.cancel_scope.cancel()
        outcome = Outcome(requests, client.cycles, client.records, target.stop())
    assert outcome.growth_kib < MAX_GROWTH_KIB
    return outcome


async def _attack(random: Random, port: int, requests: int) -> None:
    while requests > 0:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        together = min(random.choice([1, 1, 2, 5, 20]), requests)
        requests -= together
        for _ in range(together):
            request = hostile_request(random)
            writer.write(frame(request) if random.random() < 0.98 else random.choice(EXTREMES) + request)
        try:
            match random.randrange(3):
                case 0:
                    writer.transport.abort()
                case 1:
                    writer.write_eof()
                    with anyio.move_on_after(0.05):
                        await reader.read()
                case _:
                    with anyio.move_on_after(0.01):
                        await reader.read(100)
        except OSError:
            pass
        writer.transport.abort()
