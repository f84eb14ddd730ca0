"""`python -m benchmarks.aiokafka_consumer ADDRESS GROUP TOPIC COUNT PROPERTIES`: the same with aiokafka.

It has none of those properties; see `confluent_consumer`.
"""

from __future__ import annotations

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer

from benchmarks.confluent_consumer import Gate, Receipts, say


async def run(address: str, group: str, topic: str, count: int) -> None:
    gate = Gate()
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", heartbeat_interval_ms=500
    )
    await consumer.start()
    while not consumer.assignment():  # noqa: ASYNC110 - aiokafka tells of it in no better way without a listener
        await asyncio.sleep(0.01)
    say("ready")
    while not gate.is_open:  # noqa: ASYNC110 - a thread opens it
        await asyncio.sleep(0.01)
    receipts = Receipts()
    while receipts.records < count and not receipts.is_idle:
        batches = await consumer.getmany(timeout_ms=100, max_records=5_000)
        if batches:
            receipts.add(sum(map(len, batches.values())))
    say(json.dumps(receipts.all()))
    await asyncio.to_thread(gate.wait_for_end)
    await consumer.stop()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
