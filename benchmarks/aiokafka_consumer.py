"""`python -m benchmarks.aiokafka_consumer ADDRESS GROUP TOPIC COUNT`: as `confluent_consumer`, with aiokafka."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from aiokafka import AIOKafkaConsumer

from benchmarks.confluent_consumer import IDLE


async def run(address: str, group: str, topic: str, count: int) -> dict[str, float]:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest")
    await consumer.start()
    while not consumer.assignment():  # noqa: ASYNC110 - aiokafka tells of it in no better way without a listener
        await asyncio.sleep(0.001)
    first = last = time.monotonic()
    received = 0
    while received < count and time.monotonic() - last < IDLE:
        batches = await consumer.getmany(timeout_ms=100, max_records=5_000)
        if batches:
            received += sum(map(len, batches.values()))
            last = time.monotonic()
    await consumer.stop()
    return {"records": received, "first": first, "last": last}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))))
