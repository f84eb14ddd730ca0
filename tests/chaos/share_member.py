"""A share consumer (KIP-932) with a journal: confluent-kafka, which accepts each record it has shown, and waits for the
answer.

`python -m tests.chaos.share_member SCRIPT`: the JSON of `tests.clients.script.Script`. SIGTERM closes it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from types import FrameType

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer, TopicPartition

from tests.clients.consuming import DEAD, Seen, report, show
from tests.clients.script import Script


class Run:
    """The poll loop until SIGTERM."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._stopped = False

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self._script.bootstrap_servers,
                "client.id": self._script.client_id,
                "group.id": self._script.group or "",
                "share.acknowledgement.mode": "explicit",
                "error_cb": lambda error: report("error", text=str(error)),
            }
        )
        consumer.set_acknowledgement_commit_callback(_acknowledged)
        consumer.subscribe([self._script.topic])
        while not self._stopped:
            messages = list(consumer.poll(0.2))
            for message in messages:
                self._work(consumer, message)
            sys.stdout.flush()
            if messages:
                try:
                    consumer.commit_sync(20)
                except KafkaException as failure:
                    report("commit failed", text=str(failure))
        consumer.close()
        sys.stdout.flush()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped = True

    def _work(self, consumer: ShareConsumer, message: Message) -> None:
        if (error := message.error()) is not None:
            report("error", text=str(error))
            return
        seen = _seen(message)
        show(seen)
        if self._script.dies_of and (seen.value or b"").startswith(self._script.dies_of.encode()):
            sys.stdout.flush()
            os._exit(DEAD)
        time.sleep(self._script.seconds_per_record)
        consumer.acknowledge(message, AcknowledgeType.ACCEPT)


def _seen(message: Message) -> Seen:
    timestamp_type, timestamp = message.timestamp()
    partition, offset, key, value = message.partition(), message.offset(), message.key(), message.value()
    assert partition is not None and offset is not None
    assert not isinstance(key, str) and not isinstance(value, str)
    # librdkafka counts types of timestamps from 1.
    return Seen(partition, offset, timestamp, timestamp_type - 1, key, value, message.headers() or ())  # type: ignore[arg-type]


def _acknowledged(offsets: Mapping[TopicPartition, set[int]], failure: KafkaException | None) -> None:
    for place, numbers in offsets.items():
        line = {"event": "acknowledged", "at": time.monotonic(), "partition": place.partition}
        if failure is not None:
            line["event"] = f"acknowledgement failed: {failure}"
        sys.stdout.write(json.dumps({**line, "offsets": sorted(numbers)}) + "\n")


if __name__ == "__main__":
    Run(Script(**json.loads(sys.argv[1]))).run()
