"""A share consumer (KIP-932) in a separate process: confluent-kafka, and a JSON line for each thing that happens.

`python -m tests.integration.share_consumer OPTIONS`, where OPTIONS is the JSON of `ShareOptions`. SIGTERM closes it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any, Literal

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer, TopicPartition

from tests.integration.consumer import DEAD
from tests.integration.records import Record, View


@dataclass(frozen=True, slots=True)
class ShareOptions:
    """Tells the consumer what to do.

    acknowledge: `implicit` leaves it to the next poll; `sync` accepts each record by itself, and commits after each
    poll; `hold` never acknowledges. releases: how many records to release at their first delivery, one of ten. rejects:
    the beginning of the ids of records to reject. dies_of: the id of a record that kills it.
    """

    bootstrap_servers: str
    group: str
    topic: str
    acknowledge: Literal["implicit", "sync", "hold"] = "sync"
    releases: bool = False
    rejects: str = ""
    dies_of: str = ""
    seconds_per_record: float = 0.0
    properties: Mapping[str, str | int | float] = field(default_factory=dict)

    def to_json(self) -> str:
        """The argument of the process."""
        return json.dumps(asdict(self))


class Run:
    """The poll loop until SIGTERM."""

    def __init__(self, options: ShareOptions) -> None:
        self._options = options
        self._stopped = False
        self._number = 0

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        options = self._options
        consumer = ShareConsumer(
            {
                "bootstrap.servers": options.bootstrap_servers,
                "group.id": options.group,
                "share.acknowledgement.mode": "implicit" if options.acknowledge == "implicit" else "explicit",
                "error_cb": lambda error: _emit("error", text=str(error)),
                **options.properties,
            }
        )
        consumer.set_acknowledgement_commit_callback(_acknowledged)
        consumer.subscribe([options.topic])
        while not self._stopped:
            messages = list(consumer.poll(0.2))
            for message in messages:
                self._work(consumer, message)
            sys.stdout.flush()
            if options.acknowledge == "hold" and messages:
                self._wait()
            if options.acknowledge == "sync" and messages:
                self._commit(consumer)
        consumer.close()
        sys.stdout.flush()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped = True

    def _wait(self) -> None:
        """Waits without polling or ending."""
        while not self._stopped:
            time.sleep(0.05)

    def _work(self, consumer: ShareConsumer, message: Message) -> None:
        if (error := message.error()) is not None:
            _emit("error", text=str(error))
            return
        record, options = Record.of(message), self._options
        if record.id == options.dies_of:
            sys.stdout.flush()
            os._exit(DEAD)
        deliveries = message.delivery_count() or 0
        place = {"partition": message.partition(), "offset": message.offset()}
        fingerprint = record.fingerprint(View.WHOLE)
        _emit("record", id=record.id, fingerprint=fingerprint, deliveries=deliveries, **place)
        if options.acknowledge == "sync":
            self._number += 1
            kind = AcknowledgeType.ACCEPT
            if options.rejects and record.id.startswith(options.rejects):
                kind = AcknowledgeType.REJECT
            elif options.releases and deliveries == 1 and self._number % 10 == 0:
                kind = AcknowledgeType.RELEASE
                _emit("released", **place)
            consumer.acknowledge(message, kind)
        if options.seconds_per_record:
            sys.stdout.flush()
            time.sleep(options.seconds_per_record)  # stands for work

    def _commit(self, consumer: ShareConsumer) -> None:
        try:
            failed = [each for each in consumer.commit_sync(20).values() if each is not None]
        except KafkaException as failure:
            failed = [failure]
        _emit("commit failed", text=str(failed)) if failed else _emit("committed")


def _acknowledged(offsets: Mapping[TopicPartition, set[int]], failure: KafkaException | None) -> None:
    event = "acknowledged" if failure is None else "acknowledgement failed"
    for place, numbers in offsets.items():
        _emit(event, partition=place.partition, offsets=sorted(numbers), text=str(failure or ""))


def _emit(event: str, **more: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")


if __name__ == "__main__":
    Run(ShareOptions(**json.loads(sys.argv[1]))).run()
