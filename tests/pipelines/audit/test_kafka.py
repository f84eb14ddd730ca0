"""The data that an audit reads, from librdkafka's mock cluster."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from mesh.journal.pages import Page
from mesh.pipelines.audit.kafka import Stretch, UnreadableCluster, logs, read_pages, read_runs
from tests.upstream.conftest import mock_cluster as mock_cluster
from tests.upstream.harness import TIMEOUT, new_name

HOUR = 3_600_000


def produce(servers: str, topic: str, values: list[tuple[bytes, int]], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value, timestamp in values:
        producer.produce(topic, value, partition=partition, timestamp=timestamp)
    assert producer.flush(TIMEOUT) == 0


def test_stretches_are_cut() -> None:
    assert [(each.begin, each.end) for each in Stretch("eu", "t", 0, 3, 10).cut(3)] == [(3, 6), (6, 9), (9, 10)]
    assert not list(Stretch("eu", "t", 0, 3, 3).cut())


def test_runs_of_what_is_there_by_window(mock_cluster: str) -> None:
    topic, servers = new_name("runs"), {"bootstrap.servers": mock_cluster}
    produce(mock_cluster, topic, [(b"x", 10 * HOUR + number * HOUR // 4) for number in range(10)])
    found = logs(servers, [topic])
    assert (found[topic, 0].start, found[topic, 0].end) == (0, 10)
    assert found[topic, 1].end == 0
    runs = list(read_runs(servers, Stretch("eu", topic, 0, 0, 10), HOUR))
    assert runs == [(0, 3, 10 * HOUR), (4, 7, 11 * HOUR), (8, 9, 12 * HOUR)]
    assert list(read_runs(servers, Stretch("eu", topic, 0, 3, 5), HOUR)) == [(3, 3, 10 * HOUR), (4, 4, 11 * HOUR)]


def test_pages_and_what_else_lies_in_the_topic(mock_cluster: str) -> None:
    topic, servers = new_name("pages"), {"bootstrap.servers": mock_cluster}
    page = Page(HOUR)
    page.add("delivered", HOUR, ("v", "g"), ("eu", "t", 3), ("m", "c", "h", ""), 10, 14, 1, 0)
    written = [(page.encode("p", "r", number), HOUR) for number in range(3)]
    produce(mock_cluster, topic, [written[0], (b"something else", HOUR), *written[1:]])
    assert [page.sequence for page in read_pages(servers, Stretch("eu", topic, 0, 0, 4))] == [0, 1, 2]
    assert [page.sequence for page in read_pages(servers, Stretch("eu", topic, 0, 3, 4))] == [2]


def test_a_property_that_is_refused_is_told() -> None:
    with pytest.raises(Exception, match=r"security\.protocol"):
        logs({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "carrier pigeon"}, ["t"])
    assert issubclass(UnreadableCluster, RuntimeError)
