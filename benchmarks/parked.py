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


@dataclass(frozen=True, slots=True)
class Parked:
    """cores: of what is asked, while nothing arrives. woken: seconds until so many had an answer with records."""

    cores: float
    fetches: int
    woken: float


def measure(bed: Bed, target: Target, pid: int, consumers: int, seconds: float) -> Parked:
    """pid: whose CPU counts. Each consumer has a connection and no group."""
    return asyncio.run(_measure(bed, target, pid, consumers, seconds))


async def _measure(bed: Bed, target: Target, pid: int, consumers: int, seconds: float) -> Parked:
    topic = bed.new_topic(PARTITIONS)
    host, _, port = target.bootstrap_servers.rpartition(":")
    clients = [_Client(number, topic) for number in range(consumers)]
    for client in clients:
        await client.connect(host, int(port))
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.run)
        await asyncio.sleep(2.0)
        before, answered, begin = cpu_seconds(pid), sum(client.answered for client in clients), time.monotonic()
        await asyncio.sleep(seconds)
        cores = (cpu_seconds(pid) - before) / (time.monotonic() - begin)
        fetches = sum(client.answered for client in clients) - answered
        woken = await _wake(bed, topic, clients)
        tasks.cancel_scope.cancel()
    return Parked(cores, fetches, woken)


async def _wake(bed: Bed, topic: str, clients: list[_Client]) -> float:
    """A record for each, a batch each: seconds until as many answers had records."""
    properties = {"bootstrap.servers": bed.broker.bootstrap_servers, "batch.num.messages": 1, "linger.ms": 0}
    producer = Producer(properties)
    begin = time.monotonic()
    for number in range(len(clients)):
        producer.produce(topic, b"wake", partition=number % PARTITIONS)
    producer.flush(30)
    while sum(client.with_records for client in clients) < len(clients):
        if time.monotonic() - begin > 20:
            break
        await asyncio.sleep(0.001)
    return time.monotonic() - begin


class _Client:
    """Fetch v11, over and over. Offsets are followed only as far as records come."""

    def __init__(self, number: int, topic: str) -> None:
        self._topic = topic.encode()
        self._client_id = f"parked-{number}".encode()
        self._offsets = [0] * PARTITIONS
        self._correlation = 0
        self.answered = 0
        self.with_records = 0

    async def connect(self, host: str, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection(host, port)

    async def run(self) -> None:
        while True:
            self._writer.write(self._request())
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            await self._reader.readexactly(size)
            self.answered += 1
            self.with_records += size > EMPTY_ANSWER + len(self._topic)

    def _request(self) -> bytes:
        self._correlation += 1
        header = struct.pack(">hhih", 1, 11, self._correlation, len(self._client_id)) + self._client_id
        body = struct.pack(">iiiibii", -1, WAIT_MS, 1, 1 << 20, 1, 0, -1)
        body += struct.pack(">ih", 1, len(self._topic)) + self._topic + struct.pack(">i", PARTITIONS)
        for partition, offset in enumerate(self._offsets):
            body += struct.pack(">iiqqi", partition, -1, offset, -1, 1 << 20)
        body += struct.pack(">ih", 0, 0)
        return struct.pack(">i", len(header) + len(body)) + header + body


EMPTY_ANSWER = 4 + 4 + 2 + 4 + 4 + 2 + 4 + PARTITIONS * (4 + 2 + 8 + 8 + 8 + 4 + 4 + 4) + 8
"""Bytes of an answer without records, and a little more."""
