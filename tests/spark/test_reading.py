"""The records that a task reads, both ways, from librdkafka's mock cluster, which keeps the last 5 MB of a
partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Producer

from pyspark_kafka_mesh.offsets import Range

pytestmark = pytest.mark.long
COUNT = 40_000
BY_LIBRDKAFKA = {"queued.min.messages": "100000"}
"""A property that the mesh's own connections do not support."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a cluster whose topic `long` has lost its beginning; `short` has 100 records with keys and
    headers."""
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


@pytest.fixture(params=["undecoded", "by librdkafka"])
def properties(address: str, request: pytest.FixtureRequest) -> Mapping[str, str]:
    further = BY_LIBRDKAFKA if request.param == "by librdkafka" else {}
    return {"bootstrap.servers": address, **further}


def rows(
    properties: Mapping[str, str], topic: str, first: int, last: int, fail_on_loss: bool = True
) -> list[dict[str, object]]:
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
    batches = read([piece], properties, fail_on_loss, schema)
    return [row for batch in batches for row in batch.to_pylist()]


def test_exactly_the_range_with_everything_in_it(properties: Mapping[str, str]) -> None:
    found = rows(properties, "short", 10, 12)
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


def test_more_than_one_arrow_batch(properties: Mapping[str, str]) -> None:
    found = rows(properties, "long", COUNT - 15_000, COUNT - 1)
    assert [row["offset"] for row in found] == list(range(COUNT - 15_000, COUNT))


def test_an_end_that_is_gone_is_an_error_unless_it_may_be(properties: Mapping[str, str]) -> None:
    from pyspark_kafka_mesh.failures import DataLost

    with pytest.raises(DataLost, match=r"the end of eu/short-0 98..200 is not there any more: its log ends at 100"):
        rows(properties, "short", 98, 200)
    assert [row["offset"] for row in rows(properties, "short", 98, 200, fail_on_loss=False)] == [98, 99]


def test_a_beginning_that_is_gone_is_an_error_unless_it_may_be(properties: Mapping[str, str]) -> None:
    from pyspark_kafka_mesh.failures import DataLost

    with pytest.raises(DataLost, match=r"the beginning of eu/long-0 5..9 is not there any more"):
        rows(properties, "long", 5, 9)
    assert rows(properties, "long", 5, 9, fail_on_loss=False) == []
    survivors = rows(properties, "long", 5, COUNT - 1, fail_on_loss=False)
    assert survivors[-1]["offset"] == COUNT - 1
    assert 0 < len(survivors) < COUNT - 5


def test_a_partition_of_which_nothing_comes_is_an_error(
    properties: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa

    from pyspark_kafka_mesh import by_librdkafka, undecoded
    from pyspark_kafka_mesh.failures import ReadFailed
    from pyspark_kafka_mesh.reading import read

    monkeypatch.setattr(undecoded, "GIVE_UP_AFTER", 1.0)
    monkeypatch.setattr(by_librdkafka, "GIVE_UP_AFTER", 1.0)
    with pytest.raises(ReadFailed, match="eu/short-77"):
        list(read([Range("eu", "short", 77, 0, 9)], properties, True, pa.schema([("offset", pa.int64())])))


def test_several_ranges_in_one_task(properties: Mapping[str, str]) -> None:
    import pyarrow as pa

    from pyspark_kafka_mesh.reading import read

    pieces = [Range("eu", "short", 0, 5, 7), Range("eu", "long", 0, COUNT - 2, COUNT - 1)]
    batches = list(read(pieces, properties, True, pa.schema([("topic", pa.string()), ("offset", pa.int64())])))
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert found == [("short", 5), ("short", 6), ("short", 7), ("long", COUNT - 2), ("long", COUNT - 1)]


def test_a_reader_that_is_not_read_to_its_end_lets_go(properties: Mapping[str, str]) -> None:
    import pyarrow as pa

    from pyspark_kafka_mesh.reading import read

    batches = read([Range("eu", "long", 0, COUNT - 30_000, COUNT - 1)], properties, False, pa.schema([]))
    next(batches)
    getattr(batches, "close")()  # noqa: B009
