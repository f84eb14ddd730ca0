"""An open transaction, on a real broker: a task reads by the isolation level of the pool that leased its range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pyspark_kafka_mesh.offsets import COMMITTED, Range
from tests.integration.kafka import KafkaCluster
from tests.integration.leasing import Holder, spans
from tests.integration.mesh_process import Mesh
from tests.spark.test_reading import BY_LIBRDKAFKA
from tests.upstream.harness import new_name, produce

pytest.importorskip("pyarrow", reason="it comes with the extra: pip install 'kafka-mesh[spark]'")
BEFORE, OPEN = 100, 50
READERS: Mapping[str, Mapping[str, str]] = {"undecoded": {}, "by librdkafka": BY_LIBRDKAFKA}


class Transaction:
    """A topic with so many records, and behind them so many of an open transaction."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self.topic = new_name("open")
        kafka.create_topic(self.topic, 1)
        produce(kafka.bootstrap_servers, self.topic, BEFORE)
        self.producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": self.topic})
        self.producer.init_transactions(30)
        self.producer.begin_transaction()
        for number in range(BEFORE, BEFORE + OPEN):
            self.producer.produce(self.topic, b"%d" % number, partition=0)
        self.producer.flush(30)


@pytest.fixture
def transaction(kafka: KafkaCluster) -> Iterator[Transaction]:
    transaction = Transaction(kafka)
    yield transaction
    transaction.producer.abort_transaction(30)


def values(kafka: KafkaCluster, piece: Range, isolation: str, further: Mapping[str, str]) -> list[object]:
    import pyarrow as pa

    from pyspark_kafka_mesh.reading import read

    properties = {"bootstrap.servers": kafka.bootstrap_servers, **further}
    batches = read([piece], properties, True, pa.schema([("value", pa.binary())]), isolation)
    return [row["value"] for batch in batches for row in batch.to_pylist()]


def expected(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize(("isolation", "count"), [("read_uncommitted", BEFORE + OPEN), (COMMITTED, BEFORE)])
def test_what_is_leased_is_read_by_the_isolation_of_the_pool(
    kafka: KafkaCluster, transaction: Transaction, tmp_path: Path, isolation: str, count: int
) -> None:
    mesh = Mesh([kafka], [transaction.topic], tmp_path, {"isolation": isolation})
    try:
        lease = Holder(mesh, new_name("leasing"), transaction.topic).lease(count)
    finally:
        mesh.kill()
    assert spans(lease["ranges"]) == [(0, 0, count - 1)]
    assert lease["isolation"] == isolation
    piece = Range.of_json(lease["ranges"][0])
    for further in READERS.values():
        assert values(kafka, piece, lease["isolation"], further) == expected(count)


@pytest.mark.parametrize("reader", READERS)
def test_a_task_that_reads_what_is_committed_waits_for_a_transaction_that_is_open(
    kafka: KafkaCluster, transaction: Transaction, reader: str
) -> None:
    """As the checkpoint requires for a batch that was planned before offsets had an isolation level."""
    piece = Range("eu", transaction.topic, 0, 0, BEFORE + OPEN - 1)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(values, kafka, piece, COMMITTED, READERS[reader])
        with pytest.raises(TimeoutError):
            read.result(2.0)
        transaction.producer.commit_transaction(30)
        assert read.result(60.0) == expected(BEFORE + OPEN)
    transaction.producer.begin_transaction()
