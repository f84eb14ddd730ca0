"""`python -m benchmarks.confluent_consumer ADDRESS GROUP TOPIC COUNT PROPERTIES [late]`: consumes as a team's program.

Auto-commit at its default. PROPERTIES: JSON, of librdkafka. Says `ready` when it is assigned partitions, waits for a
line, consumes COUNT records, or until it is given another line, says `first` when some have come, and in the end what
came when, as JSON. It leaves its group when its input ends: so nobody is rebalanced while others are measured. With
`late` it joins its group after the first line.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

IDLE = 10.0
"""Seconds without a record after which a consumer gives up."""


class Receipts:
    """When how many records had come: samples of (monotonic seconds, records so far), at most a hundred a second."""

    def __init__(self) -> None:
        self.records = 0
        self.samples: list[tuple[float, int]] = []
        self._last = time.monotonic()

    def add(self, count: int) -> None:
        self._last = time.monotonic()
        self.records += count
        if not self.samples or self._last >= self.samples[-1][0] + 0.01:
            self.samples.append((self._last, self.records))

    @property
    def is_idle(self) -> bool:
        return time.monotonic() - self._last > IDLE

    def all(self) -> list[tuple[float, int]]:
        """The samples with the last of all."""
        return [*self.samples, (self._last, self.records)] if self.records else []


class Gate:
    """Opened by a line on the standard input, and closed by the next one, or by its end."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def wait(self) -> None:
        self._opened.wait()

    def wait_for_end(self) -> None:
        """Waits for the end of the input."""
        self._thread.join()

    def _wait(self) -> None:
        sys.stdin.readline()
        self._opened.set()
        sys.stdin.readline()
        self._closed.set()
        sys.stdin.read()


def say(text: str) -> None:
    print(text, flush=True)


def run(address: str, group: str, topic: str, count: int, properties: dict[str, str], is_late: bool) -> None:
    gate = Gate()
    if is_late:
        say("ready")
        gate.wait()
    own = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({"heartbeat.interval.ms": "500", **properties, **own})
    consumer.subscribe([topic], on_assign=_paused_until(gate))
    while not gate.is_open:
        consumer.poll(0.05)
    consumer.resume(consumer.assignment())
    receipts = Receipts()
    while receipts.records < count and not receipts.is_idle and not gate.is_closed:
        messages = consumer.consume(1_000, 0.1)
        if messages:
            if not receipts.records:
                say("first")
            receipts.add(len(messages))
    consumer.pause(consumer.assignment())  # otherwise its queue would take records that others still need
    say(json.dumps(receipts.all()))
    gate.wait_for_end()
    consumer.close()


def _paused_until(gate: Gate) -> Callable[[Consumer, list[TopicPartition]], None]:
    def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        if not gate.is_open:
            consumer.pause(partitions)
            say("ready")

    return assigned


if __name__ == "__main__":
    address, group, topic, count, properties = sys.argv[1:6]
    run(address, group, topic, int(count), json.loads(properties), is_late=sys.argv[6:] == ["late"])
