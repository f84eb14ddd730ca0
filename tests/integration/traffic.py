"""Clients that produce and consume all the time, and what each of them has stored, read and been told."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from tests.integration.kafka import CLIENT_PROPERTIES

EVERY: Final = 0.3
"""Seconds between two records of a source."""
SOON: Final[Mapping[str, Any]] = {"metadata.recovery.rebootstrap.trigger.ms": 1_000}
"""A client all of whose nodes have moved bootstraps again: by default after five minutes (KIP-1102)."""


@dataclass(eq=False, slots=True)
class Source:
    """Records of one topic, and their producer. name: a part of each value. topic: as the producer sees it. stored: the
    numbers of the stored records."""

    name: str
    topic: str
    properties: Mapping[str, Any]
    stored: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Problems of connections that the producer reports."""
    refused: list[str] = field(default_factory=list)
    """Errors of records that are not stored."""
    fatal: list[str] = field(default_factory=list)
    """Errors after which a producer writes no more. Another one continues."""
    begins_anew: threading.Event = field(default_factory=threading.Event)
    """Set when another producer is to take the place of the present one, without the records that it has."""
    number: int = 0

    def keep_writing(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            producer = Producer(
                {**CLIENT_PROPERTIES, **SOON, "enable.idempotence": True, **self.properties, "error_cb": self._problem}
            )
            try:
                self._write(producer, stopping)
                if self.begins_anew.is_set():
                    self.begins_anew.clear()
                    producer.purge()
                elif not stopping.is_set():
                    self.fatal += self.refused[-1:]
                producer.flush(10)
            except KafkaException as problem:
                producer.flush(10)  # reports the reason
                self.fatal.append(f"{problem} {self.problems[-2:]} {self.refused[-2:]}")

    def _write(self, producer: Producer, stopping: threading.Event) -> None:
        is_over = threading.Event()
        while not any(each.is_set() for each in (stopping, is_over, self.begins_anew)):
            number, self.number = self.number, self.number + 1
            value = json.dumps({"source": self.name, "number": number, "card": "4111"})
            producer.produce(self.topic, value, on_delivery=partial(self._told, number, is_over))
            producer.poll(0)
            stopping.wait(EVERY)

    def _told(self, number: int, is_over: threading.Event, error: Any, _: object) -> None:
        if error is None:
            self.stored.append(number)
        else:
            self.refused.append(str(error))
            if error.fatal() or error.code() == KafkaError._PURGE_QUEUE:
                is_over.set()

    def _problem(self, error: KafkaError) -> None:
        if "isconnected" in str(error):
            self.problems.append(str(error))


@dataclass(eq=False, slots=True)
class Reader:
    """A consumer that commits the records that it has read. topics: as it sees them. read: how often each record was
    read, by source and number."""

    name: str
    topics: Sequence[str]
    properties: Mapping[str, Any]
    read: Counter[tuple[str, int]] = field(default_factory=Counter)
    newest: dict[str, int] = field(default_factory=dict)
    """The highest number that was read of each source."""
    complete: Counter[str] = field(default_factory=Counter)
    """How many of the stored records of each source are known to be read, from the first one on."""
    problems: list[str] = field(default_factory=list)
    again: list[tuple[str, int]] = field(default_factory=list)
    """Records that came again, in the order in which they came."""

    def keep_reading(self, stopping: threading.Event) -> None:
        # A client may learn the coordinator from a virtual cluster that is about to restart with another address. Then
        # librdkafka tries that address for ten minutes before it asks again.
        usual = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "coordinator.query.interval.ms": 1_000}
        consumer = Consumer({**CLIENT_PROPERTIES, **SOON, **usual, **self.properties, "error_cb": self._problem})
        consumer.subscribe([*self.topics])
        while not stopping.is_set():
            messages = [each for each in consumer.consume(500, 0.1) if each.error() is None]
            for each in messages:
                self._take(json.loads(each.value() or b"{}"))
            if messages:
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException as problem:
                    self._problem(problem.args[0])
        consumer.close()

    def missing(self, source: Source, number: int) -> list[int]:
        """Returns the stored records of a source below this number that it has not read."""
        name, at = source.name, self.complete[source.name]
        while at < len(source.stored) and (name, source.stored[at]) in self.read:
            at += 1
        self.complete[name] = at
        return [each for each in source.stored[at:] if each < number and (name, each) not in self.read]

    def _take(self, value: Mapping[str, Any]) -> None:
        source, number = str(value["source"]), int(value["number"])
        self.read[source, number] += 1
        if self.read[source, number] > 1:
            self.again.append((source, number))
        self.newest[source] = max(number, self.newest.get(source, -1))

    def _problem(self, error: KafkaError) -> None:
        if "isconnected" in str(error):
            self.problems.append(str(error))


class RunningTraffic:
    """The threads of sources and readers."""

    def __init__(self, sources: Sequence[Source], readers: Sequence[Reader]) -> None:
        self._stopping = threading.Event()
        runs: list[Callable[[threading.Event], None]] = [
            *(each.keep_writing for each in sources),
            *(each.keep_reading for each in readers),
        ]
        self._threads = [threading.Thread(target=run, args=(self._stopping,)) for run in runs]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
