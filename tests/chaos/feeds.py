"""The fed records: plain ones with all codecs, transactions that commit or abort, records for compaction, and records
that kill their members."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from confluent_kafka import KafkaException, Producer

from tests.integration.feeding import Feed
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.records import Record, varied_record

POISON = "poison"
_SHARED_KEYS = 40


def compacted_record(identity: str, number: int) -> Record:
    """Every other record has a repeated key, so that compaction leaves gaps."""
    record = varied_record(identity, number)
    key = f"key-{number // 2 % _SHARED_KEYS}" if number % 2 else identity
    return Record(key.encode(), record.value or identity.encode() + b"|", record.headers, record.timestamp)


def poison_record(identity: str, number: int) -> Record:
    return Record(identity.encode(), f"{identity}|".encode(), (), varied_record(identity, number).timestamp)


class Plain:
    """An idempotent producer's records, a few hundred at a time."""

    def __init__(self, cluster: KafkaCluster, topic: str, rate: int, shape: Callable[[str, int], Record]) -> None:
        self.cluster = cluster.name
        self._feed = Feed(cluster, topic, shape, has_gaps=False)
        self._shape = shape
        self._rate = rate
        self._begun: list[float] = []
        """The time at which the record with each number was first fed."""

    def produce(self) -> None:
        """Produces the records of about a third of a second; raises KafkaException or AssertionError if they could not
        be stored."""
        count = max(self._rate // 3, 1)
        self._begun += [time.monotonic()] * count
        self._feed.produce(count, self._rate)

    def more(self, count: int) -> None:
        """Produces this many at once."""
        self._begun += [time.monotonic()] * count
        self._feed.produce(count)

    def begin_anew(self) -> None:
        """The topic is another one now, which its producers do not know yet."""
        self._feed.connect()

    def records(self) -> Iterator[tuple[str, Record, bool, float]]:
        """Id, record, whether a consumer may ever read it, and the time from which it may be stored."""
        for identity in self._feed.ids():
            number = int(identity.rpartition("-")[2])
            yield identity, self._shape(identity, number), True, self._begun[number]


class Transactions:
    """Transactions of up to fifty records, every third of them aborted."""

    def __init__(
        self, cluster: KafkaCluster, topic: str, seed: int, shape: Callable[[str, int], Record] = varied_record
    ) -> None:
        self.cluster = cluster.name
        self._cluster = cluster
        self._topic = topic
        self._shape = shape
        self._chance = random.Random(f"{seed} {cluster.name}")
        self._number = 0
        self._may_come: dict[str, tuple[Record, bool, float]] = {}
        self._producer: Producer | None = None

    def produce(self) -> None:
        """Produces one transaction. If its outcome is unknown, it may be committed."""
        ids = [self._next() for _ in range(self._chance.randint(1, 50))]
        aborts = self._chance.random() < 1 / 3
        try:
            producer = self._producer = self._producer or self._begun()
            producer.begin_transaction()
            for identity in ids:
                record = self._may_come[identity][0]
                producer.produce(
                    self._topic, record.value, record.key, headers=list(record.headers), timestamp=record.timestamp
                )
            if aborts:
                self._never_come(ids)
                producer.flush(10)  # an aborted transaction that was never sent tests nothing
                producer.abort_transaction(20)
            else:
                producer.commit_transaction(20)
        except KafkaException:
            # It is unknown whether it was committed; a new producer ends it either way.
            self._producer = None

    def records(self) -> Iterator[tuple[str, Record, bool, float]]:
        """As above."""
        for identity, (record, may_come, begun) in self._may_come.items():
            yield identity, record, may_come, begun

    def begin_anew(self) -> None:
        """As above."""
        self._producer = None

    def finish(self) -> None:
        """Ends a transaction with an unknown outcome."""
        if self._producer is None:
            self._begun()

    def _next(self) -> str:
        identity = f"{self._cluster.name}-{self._topic}-t-{self._number}"
        self._may_come[identity] = (self._shape(identity, self._number), True, time.monotonic())
        self._number += 1
        return identity

    def _never_come(self, ids: Iterable[str]) -> None:
        for identity in ids:
            record, _, begun = self._may_come[identity]
            self._may_come[identity] = (record, False, begun)

    def _begun(self) -> Producer:
        producer = Producer(
            {
                **CLIENT_PROPERTIES,
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "transactional.id": f"{self._topic}-{self._cluster.name}",
                "transaction.timeout.ms": 10_000,
                "socket.timeout.ms": 5_000,
            }
        )
        producer.init_transactions(30)
        return producer


def feed_poison(cluster: KafkaCluster, topic: str, count: int, first: int = 0) -> dict[str, Record]:
    """Stores this many records that kill their members, numbered from `first`; returns them by id."""
    numbers = range(first, first + count)
    records = {f"{POISON}-{number}": poison_record(f"{POISON}-{number}", number) for number in numbers}
    producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.bootstrap_servers})
    for record in records.values():
        producer.produce(topic, record.value, record.key, timestamp=record.timestamp)
    assert producer.flush(30) == 0
    return records


class Feeding:
    """Keeps one source going in a thread until it is stopped."""

    def __init__(self, produce: Callable[[], None], pause: float = 0.0) -> None:
        self._produce = produce
        self._pause = pause
        self._stopped = threading.Event()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._is_idle = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def hold(self) -> None:
        """Begins no further record until `go_on`."""
        self._is_idle.clear()
        self._may_go_on.clear()

    @property
    def is_idle(self) -> bool:
        """True if it is held and produces nothing."""
        return self._is_idle.is_set() or not self._thread.is_alive()

    def go_on(self) -> None:
        """Ends `hold`."""
        self._may_go_on.set()

    def stop(self, timeout: float = 150.0) -> None:
        """Returns when all its records are stored; raises the error of the source."""
        self._stopped.set()
        self._may_go_on.set()
        self._thread.join(timeout)
        assert not self._thread.is_alive(), f"still producing after {timeout} s"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while not self._stopped.wait(self._pause):
            if not self._may_go_on.is_set():
                self._is_idle.set()
                self._may_go_on.wait()
                continue
            try:
                self._produce()
            except (KafkaException, AssertionError) as failure:
                self._failure = failure
                return
