"""A consumer as teams write them, in a separate process: confluent-kafka, and a JSON line for each thing that happens.

`python -m tests.integration.consumer OPTIONS`, where OPTIONS is the JSON of `ConsumerOptions`. SIGTERM closes it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Literal

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.integration.records import Record, View

DEAD = 70
"""The exit code of a process that died of a record."""


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """What the consumer does.

    topic: to subscribe to; with `partitions` these are assigned instead, from the first offset there is.
    commit: `auto` is librdkafka's own, every 5 s unless `properties` say otherwise; `sync` after each poll.
    seconds_per_record: how long the work on one record takes.
    dies_of: the id of a record that kills the process at once, before it is shown or committed.
    """

    bootstrap_servers: str
    group: str
    topic: str
    partitions: tuple[int, ...] = ()
    commit: Literal["auto", "sync", "none"] = "auto"
    seconds_per_record: float = 0.0
    dies_of: str = ""
    records_per_poll: int = 200
    properties: Mapping[str, str | int | float] = field(default_factory=dict)

    def to_json(self) -> str:
        """The argument of the process."""
        return json.dumps(asdict(self))


def run(options: ConsumerOptions) -> None:
    """Consumes until SIGTERM."""
    stopped = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap_servers,
            "group.id": options.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": options.commit == "auto",
            "error_cb": lambda error: _emit("error", text=str(error)),
            **options.properties,
        }
    )
    _attach(consumer, options)
    while not stopped:
        messages = consumer.consume(options.records_per_poll, timeout=0.2)
        for message in messages:
            _work(message, options)
        if messages and options.commit == "sync":
            _commit(consumer)
        sys.stdout.flush()
    consumer.close()


def _attach(consumer: Consumer, options: ConsumerOptions) -> None:
    if options.partitions:
        consumer.assign([TopicPartition(options.topic, partition, 0) for partition in options.partitions])
        return

    def report(what: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        return lambda _, partitions: _emit(what, partitions=sorted(each.partition for each in partitions))

    consumer.subscribe(
        [options.topic], on_assign=report("assigned"), on_revoke=report("revoked"), on_lost=report("lost")
    )


def _work(message: Message, options: ConsumerOptions) -> None:
    if (error := message.error()) is not None:
        _emit("error", text=str(error))
        return
    record = Record.of(message)
    if record.id == options.dies_of:
        sys.stdout.flush()
        os._exit(DEAD)
    _emit(
        "record",
        id=record.id,
        fingerprint=record.fingerprint(View.WHOLE),
        partition=message.partition(),
        offset=message.offset(),
    )
    if options.seconds_per_record:
        sys.stdout.flush()
        time.sleep(options.seconds_per_record)  # stands for work


def _commit(consumer: Consumer) -> None:
    try:
        partitions = consumer.commit(asynchronous=False) or []
    except KafkaException as failure:
        _emit("commit failed", text=str(failure))
        return
    failed = [f"{each.partition}: {each.error}" for each in partitions if each.error]
    _emit("commit failed" if failed else "committed", text=", ".join(failed))


def _emit(event: str, **details: object) -> None:
    sys.stdout.write(json.dumps({"event": event, **details}) + "\n")
    if event != "record":
        sys.stdout.flush()


if __name__ == "__main__":
    run(ConsumerOptions(**json.loads(sys.argv[1])))
