"""What a task reads, from librdkafka's mock cluster: it keeps the last 5 MB of a partition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from pyspark_kafka_mesh.offsets import Range

pytestmark = pytest.mark.long
COUNT = 40_000


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a cluster whose topic `long` has lost its beginning; `short` has 100 records with keys and headers."""
    pytest.importorskip("pyarrow", reason="it comes with the extra: pip install 'kafka-mesh[spark]'")
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics("long", timeout=10).brokers.values()
    for number in range(COUNT):
        producer.produce("long", b"%06d" % number + b"x" * 250, partition=0)
        producer.poll(0)
    for number in range(100):
        key = b"k%d" % number if number % 2 else None
        headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number), ("nothing", None)]
        producer.produce("short", b"%d" % number, key, partition=0, timestamp=1_000 + number, headers=headers)
    producer.flush()
    yield f"{broker.host}:{broker.port}"


def rows(address: str, topic: str, first: int, last: int, fail_on_loss: bool = True) -> list[dict[str, object]]:
    import pyarrow as pa

    from pyspark_kafka_mesh.reading import read

    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", headers),
            ("cluster", pa.string()),
        ]
    )
    piece = Range("eu", topic, 0, first, last)
    batches = read(piece, {"bootstrap.servers": address}, fail_on_loss, schema)
    return [row for batch in batches for row in batch.to_pylist()]


def test_exactly_the_range_with_everything_in_it(address: str) -> None:
    found = rows(address, "short", 10, 12)
    assert [row["offset"] for row in found] == [10, 11, 12]
    second = found[1]
    moment = second.pop("timestamp")
    assert getattr(moment, "timestamp")() == 1.011  # noqa: B009
    assert second == {
        "key": b"k11",
        "value": b"11",
        "topic": "short",
        "partition": 0,
        "offset": 11,
        "timestampType": 0,
        "headers": [{"key": "n", "value": b"11"}, {"key": "nothing", "value": None}],
        "cluster": "eu",
    }
    assert found[0]["key"] is None


def test_more_than_one_arrow_batch(address: str) -> None:
    found = rows(address, "long", COUNT - 15_000, COUNT - 1)
    assert [row["offset"] for row in found] == list(range(COUNT - 15_000, COUNT))


def test_a_range_beyond_the_end_ends_there(address: str) -> None:
    assert [row["offset"] for row in rows(address, "short", 98, 200)] == [98, 99]


def test_a_beginning_that_is_gone_is_an_error_unless_it_may_be(address: str) -> None:
    from pyspark_kafka_mesh.reading import DataLost

    with pytest.raises(DataLost, match=r"the beginning of eu/long-0 5..9 is not there any more"):
        rows(address, "long", 5, 9)
    assert rows(address, "long", 5, 9, fail_on_loss=False) == []
    survivors = rows(address, "long", 5, COUNT - 1, fail_on_loss=False)
    assert survivors[-1]["offset"] == COUNT - 1
    assert 0 < len(survivors) < COUNT - 5


def test_a_partition_of_which_nothing_comes_is_an_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    from pyspark_kafka_mesh import reading
    from pyspark_kafka_mesh.reading import ReadFailed, read

    monkeypatch.setattr(reading, "GIVE_UP_AFTER", 1.0)
    with pytest.raises(ReadFailed, match="eu/short-77"):
        piece = Range("eu", "short", 77, 0, 9)
        list(read(piece, {"bootstrap.servers": address}, True, pa.schema([("offset", pa.int64())])))
