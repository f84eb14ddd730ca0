"""`python -m mesh.demo.processes.feeder [--linger SECONDS] TOPIC RATE JOURNAL NAME=ADDRESS ...`: feeds a topic until
SIGTERM.

It sends orders with unique ids to the clusters in turn, RATE a second in all. The journal has those that a cluster has
stored.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer

from mesh.demo.processes.journal import DemoJournal, Entry, JournalRecord
from mesh.demo.processes.signals import StopRequest

USUAL_LINGER = 0.005
"""librdkafka's default, in seconds."""
_TICK = 0.05
_FLUSH_TIMEOUT = 15
_ITEMS = ("anchor", "compass", "lantern", "rope", "sextant", "tiller")
_CUSTOMERS = 97


class Feeder:
    """A producer of numbered orders, which journals those that were stored."""

    def __init__(
        self, topic: str, clusters: Mapping[str, str], journal: DemoJournal, linger: float = USUAL_LINGER
    ) -> None:
        """clusters: bootstrap servers by name. linger: seconds for which records are collected for a batch."""
        self._topic = topic
        self._journal = journal
        # Idempotent: a retry inside the producer must not look like a record that the mesh delivered twice.
        usual = {"enable.idempotence": True, "linger.ms": linger * 1_000, "log_level": 0}
        self._producers = {
            name: Producer({"bootstrap.servers": address, **usual}) for name, address in clusters.items()
        }
        self._targets = itertools.cycle(self._producers.items())
        self._number = 0

    def feed(self, count: int) -> None:
        """Produces that many orders. Raises KafkaException when one could not be stored."""
        for cluster, producer in itertools.islice(self._targets, count):
            self._produce(cluster, producer)
        for producer in self._producers.values():
            producer.poll(0)
        self._journal.flush()

    def finish(self) -> None:
        """Waits until all orders are stored. Raises KafkaException when they are not."""
        for producer in self._producers.values():
            if producer.flush(_FLUSH_TIMEOUT):
                raise KafkaException(KafkaError._TIMED_OUT)

    def _produce(self, cluster: str, producer: Producer) -> None:
        self._number += 1
        record = order(cluster, self._number, time.time_ns() // 1_000_000)
        # Headers are taken before producing: the delivery report has none.
        entry = Entry.of(record)
        producer.produce(
            self._topic,
            record.value,
            record.key,
            headers=list(record.headers),
            timestamp=record.timestamp,
            on_delivery=lambda error, _: self._stored(error, entry),
        )

    def _stored(self, error: KafkaError | None, entry: Entry) -> None:
        if error is not None:
            raise KafkaException(error)
        self._journal.write([entry])


def order(cluster: str, number: int, timestamp: int) -> JournalRecord:
    """Returns an order with a unique id. Every tenth has no key; all have a header twice, the second time null."""
    value = {"order": f"{cluster}-{number}", "item": _ITEMS[number % len(_ITEMS)], "quantity": 1 + number % 9}
    key = None if number % 10 == 0 else b"customer-%d" % (number % _CUSTOMERS)
    headers = (("cluster", cluster.encode()), ("trace", b"%d" % number), ("trace", None))
    return JournalRecord(key, json.dumps(value).encode(), headers, timestamp)


def run(topic: str, rate: float, journal: Path, clusters: Mapping[str, str], linger: float) -> None:
    """Feeds `rate` records a second until a stop."""
    with StopRequest() as stop, DemoJournal(journal) as entries:
        feeder = Feeder(topic, clusters, entries, linger)
        begin = time.monotonic()
        fed = 0
        while not stop.wait(_TICK):
            due = int((time.monotonic() - begin) * rate)
            feeder.feed(due - fed)
            fed = due
        feeder.finish()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mesh.demo.processes.feeder")
    parser.add_argument("--linger", default=USUAL_LINGER, type=float, help="seconds that a batch collects records")
    parser.add_argument("topic")
    parser.add_argument("rate", type=float)
    parser.add_argument("journal", type=Path)
    parser.add_argument("clusters", nargs="+", metavar="NAME=ADDRESS")
    return parser.parse_args()


if __name__ == "__main__":
    given = _options()
    pairs = (pair.partition("=") for pair in given.clusters)
    run(given.topic, given.rate, given.journal, {name: address for name, _, address in pairs}, given.linger)
