"""Consumers that wait: Fetches of six partitions, 500 ms each, nothing arriving; then all of them are woken."""

from __future__ import annotations

import asyncio
import struct
import time
from dataclasses import dataclass

import anyio
from confluent_kafka import Producer

from benchmarks.bed import Bed, Target
from benchmarks.machine import cpu_seconds

PARTITIONS = 6
WAIT_MS = 500
PER_ADDRESS = 250
"""Consumers with the same address: they stand for several machines, and an address has a request quota."""
AGAIN = 0.2
"""Seconds after which consumers that were not woken get records of their own."""
SETTLE = 3.0
"""Seconds until all are parked. The cost of connecting is not measured."""


@dataclass(frozen=True, slots=True)
class Parked:
    """cores: of the target, while nothing arrives. fetches: a second. woken: seconds until all had a record."""

    cores: float
    fetches: float
    woken: float


def measure(bed: Bed, target: Target, consumers: int, seconds: float) -> Parked:
    """Each consumer has a connection and no group. Raises RuntimeError when one is refused or not woken."""
    topic = bed.new_topic(target, partitions=PARTITIONS)
    return asyncio.run(_measure(bed, target, topic, consumers, seconds))


async def _measure(bed: Bed, target: Target, topic: str, consumers: int, seconds: float) -> Parked:
    host, _, port = target.bootstrap_servers.rpartition(":")
    clients = [_Client(number, topic) for number in range(consumers)]
    for client in clients:
        await client.connect(host, int(port))
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.run)
        await asyncio.sleep(SETTLE)
        pid = target.pids[0]
        before, answered, begin = cpu_seconds(pid), sum(client.answered for client in clients), time.monotonic()
        await asyncio.sleep(seconds)
        passed = time.monotonic() - begin
        cores = (cpu_seconds(pid) - before) / passed
        fetches = (sum(client.answered for client in clients) - answered) / passed
        woken = await _wake(bed, topic, clients)
    for client in clients:
        client.close()
    return Parked(cores, fetches, woken)


async def _wake(bed: Bed, topic: str, clients: list[_Client]) -> float:
    """A record and a batch for each: the broker gives all of them to all, the mesh one to each. Batches that follow
    each other closely may reach a consumer as one; then there are more for those who still wait."""
    properties = {"bootstrap.servers": bed.broker.bootstrap_servers, "batch.num.messages": 1, "linger.ms": 0}
    producer = Producer(properties)
    begin = time.monotonic()
    with anyio.move_on_after(20):
        while asleep := [client for client in clients if not client.woken.is_set()]:
            for number in range(len(asleep)):
                producer.produce(topic, b"wake", partition=number % PARTITIONS)
                producer.poll(0)
            await asyncio.to_thread(producer.flush, 30)
            with anyio.move_on_after(AGAIN):
                for client in asleep:
                    await client.woken.wait()
        return time.monotonic() - begin
    left = sum(not client.woken.is_set() for client in clients)
    raise RuntimeError(f"{left} of {len(clients)} consumers were not woken")


class _Client:
    """Fetch v11, over and over, until an answer has records."""

    def __init__(self, number: int, topic: str) -> None:
        self._topic = topic.encode()
        self._client_id = f"parked-{number}".encode()
        self._address = f"127.0.0.{2 + number // PER_ADDRESS}"
        self._correlation = 0
        self.answered = 0
        self.woken = anyio.Event()

    async def connect(self, host: str, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection(host, port, local_addr=(self._address, 0))

    def close(self) -> None:
        self._writer.close()

    async def run(self) -> None:
        while not self.woken.is_set():
            self._writer.write(self._request())
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            answer = await self._reader.readexactly(size)
            self.answered += 1
            if size != self._empty:
                self._look(answer)

    @property
    def _empty(self) -> int:
        """Bytes of an answer without records and aborted transactions."""
        return 4 + 4 + 2 + 4 + 4 + 2 + len(self._topic) + 4 + PARTITIONS * PARTITION.size

    def _look(self, answer: bytes) -> None:
        """Raises RuntimeError when a partition has an error."""
        place = 4 + 4 + 2 + 4 + 4 + 2 + len(self._topic) + 4
        for _ in range(PARTITIONS):
            partition, error, _, _, _, _, _, size = PARTITION.unpack_from(answer, place)
            if error:
                raise RuntimeError(f"partition {partition}: error {error}")
            if size > 0:
                self.woken.set()
            place += PARTITION.size + max(size, 0)

    def _request(self) -> bytes:
        self._correlation += 1
        header = struct.pack(">hhih", 1, 11, self._correlation, len(self._client_id)) + self._client_id
        body = struct.pack(">iiiibii", -1, WAIT_MS, 1, 1 << 20, 0, 0, -1)
        body += struct.pack(">ih", 1, len(self._topic)) + self._topic + struct.pack(">i", PARTITIONS)
        for partition in range(PARTITIONS):
            body += struct.pack(">iiqqi", partition, -1, 0, -1, 1 << 20)
        body += struct.pack(">ih", 0, 0)
        return struct.pack(">i", len(header) + len(body)) + header + body


PARTITION = struct.Struct(">ihqqqiii")
"""A partition of a Fetch answer v11: number, error, high watermark, last stable and log start offset, count of aborted
transactions (none under read_uncommitted), preferred replica, bytes of records."""
