"""`python -m benchmarks.confluent_consumer ADDRESS GROUP TOPIC COUNT PROPERTIES`: consumes as a team's program does.

Group, auto-commit at its default. PROPERTIES: JSON, of librdkafka. Prints JSON when it has COUNT records, or got none
for `IDLE` s.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Consumer

IDLE = 4.0


def run(address: str, group: str, topic: str, count: int, properties: dict[str, str]) -> dict[str, float]:
    """records; first and last: monotonic seconds of the assignment and of the last record."""
    own = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**properties, **own})
    first = last = 0.0

    def assigned(*_: object) -> None:
        nonlocal first
        first = first or time.monotonic()

    consumer.subscribe([topic], on_assign=assigned)
    begin, received = time.monotonic(), 0
    while received < count:
        messages = consumer.consume(1_000, 0.1)
        now = time.monotonic()
        if messages:
            received += len(messages)
            last = now
        elif now - max(last, first + IDLE, begin + 3 * IDLE if not first else 0.0) > IDLE:
            break
    consumer.close()
    return {"records": received, "first": first, "last": last}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), json.loads(sys.argv[5]))))
