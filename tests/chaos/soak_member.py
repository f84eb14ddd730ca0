"""A consumer of the soak, `python -m tests.chaos.soak_member OPTIONS`: a line a second, and a bitmap at the end.

A record's value begins with its number, 8 bytes big-endian. The bitmap has the numbers of its records.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from confluent_kafka import Consumer, KafkaException


@dataclass(frozen=True, slots=True)
class Options:
    """stuck_after: records after which it does nothing for `stuck_seconds`, again and again; 0 for never. records: the
    number of numbers."""

    bootstrap_servers: str
    group: str
    topic: str
    name: str
    records: int
    bitmap: str
    stuck_after: int = 0
    stuck_seconds: float = 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class _Stopped:
    def __init__(self) -> None:
        self.now = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.now = True


def run(options: Options) -> None:
    stopped = _Stopped()
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap_servers,
            "group.id": options.group,
            "client.id": options.name,
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
            "max.poll.interval.ms": 20_000 if options.stuck_after else 300_000,
            "queued.max.messages.kbytes": 4_096,
        }
    )
    consumer.subscribe([options.topic])
    seen = bytearray(options.records // 8 + 1)
    count = repeated = since_stuck = 0
    told = time.monotonic()
    while not stopped.now:
        # librdkafka's own reports (such as a late poll) come as messages, too.
        messages = [each for each in consumer.consume(1_000, timeout=0.2) if each.error() is None]
        for message in messages:
            number = int.from_bytes((message.value() or b"")[:8], "big")
            place, bit = divmod(number, 8)
            repeated += seen[place] >> bit & 1
            seen[place] |= 1 << bit
        count += len(messages)
        since_stuck += len(messages)
        if options.stuck_after and since_stuck >= options.stuck_after:
            since_stuck = 0
            until = time.monotonic() + options.stuck_seconds
            _tell(count, repeated, is_stuck=True)
            while time.monotonic() < until and not stopped.now:
                time.sleep(0.2)  # doing nothing is the point
        if messages:
            _commit(consumer)
        if time.monotonic() >= told + 1:
            told = time.monotonic()
            _tell(count, repeated)
    _tell(count, repeated)
    Path(options.bitmap).write_bytes(seen)
    consumer.close()


def _commit(consumer: Consumer) -> None:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as failure:
        print(json.dumps({"failure": str(failure)}), flush=True)


def _tell(count: int, repeated: int, *, is_stuck: bool = False) -> None:
    line = {"at": time.monotonic(), "count": count, "repeated": repeated, "stuck": is_stuck}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    run(Options(**json.loads(sys.argv[1])))
