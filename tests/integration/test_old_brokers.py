"""Two clusters of an earlier version of Kafka as one, read by one engine each: the table of brokers in
docs/clients.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.bench import Bench
from tests.integration.jars import OLD_VERSIONS, missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.old_kafka import OldKafkaCluster, ZooKeeper
from tests.integration.processes import eventually
from tests.integration.records import CODECS, Record, varied_record

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
]

WITHOUT_ZSTD = ("0.11.0.3", "1.1.1", "2.0.1")
WITHOUT_STATIC_MEMBERS = WITHOUT_ZSTD
"""KIP-345 came with 2.3, zstd with 2.1."""
WITH_OLD_FORMATS = "2.8.2"
"""The newest version here whose topics may still use record formats from before Kafka 0.11."""
OLD_FORMAT = {"message.format.version": "0.10.2"}
ENGINES = {"eu": "raw", "us": "librdkafka"}
PARTITIONS = 3


@pytest.fixture(scope="module", params=OLD_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def old_pair(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    folder = tmp_path_factory.mktemp(f"kafka-{version}")
    zookeeper = ZooKeeper(version, folder / "zookeeper")
    eu, us = (OldKafkaCluster(name, zookeeper, folder / name) for name in ("eu", "us"))
    yield eu, us
    for process in (eu, us, zookeeper):
        process.kill()


@pytest.fixture
def bench(
    version: str, old_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Bench]:
    bench = Bench(old_pair, re.sub(r"\W+|_", "-", request.node.name.removeprefix("test_")).strip("-"), tmp_path)
    bench.compress_with(*(CODECS[:-1] if version in WITHOUT_ZSTD else CODECS))
    yield bench
    bench.end()


def abort(bench: Bench) -> None:
    """Aborts a transaction of ten records in every partition of every cluster."""
    for cluster in bench.clusters:
        properties = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": bench.topic}
        producer = Producer({**CLIENT_PROPERTIES, **properties})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(10 * PARTITIONS):
            producer.produce(bench.topic, b"aborted-%d|" % number, partition=number % PARTITIONS)
        producer.flush(30)
        producer.abort_transaction(30)


def ends_of(cluster: KafkaCluster, topic: str) -> list[int]:
    """The high watermark of each partition."""
    consumer = Consumer({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.bootstrap_servers, "group.id": "ends"})
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends = [(consumer.get_watermark_offsets(place, timeout=30) or (0, -1))[1] for place in places]
    consumer.close()
    return ends


def until_true_offsets_are_stored(bench: Bench) -> None:
    """Waits until all delivered records are committed upstream: behind the last record of each partition, up to its
    end."""
    last: dict[tuple[str, int], int] = {}
    for each in bench.stored().values():
        place = each.cluster, each.partition
        last[place] = max(each.offset, last.get(place, -1))
    assert len(last) == 2 * PARTITIONS

    def stored() -> bool:
        found = {
            (cluster.name, partition): offset
            for cluster in bench.clusters
            for (_, partition), offset in cluster.committed(bench.group).items()
        }
        return found.keys() == last.keys() and all(last[place] < found[place] for place in found)

    eventually("all is committed upstream", stored, timeout=60, interval=0.2)
    for cluster in bench.clusters:
        ends = ends_of(cluster, bench.topic)
        assert all(offset <= ends[partition] for (_, partition), offset in cluster.committed(bench.group).items())


def is_static(bench: Bench) -> bool:
    """True if the mesh, which has a process_id, is a static member of the upstream groups."""
    found = []
    for cluster in bench.clusters:
        admin = cluster.admin()
        group = admin.describe_consumer_groups([bench.group])[bench.group].result(30)
        found += [member.group_instance_id is not None for member in group.members]
    assert len(set(found)) == 1
    return found[0]


def carriers(bench: Bench, cluster: KafkaCluster) -> set[str]:
    """The engines that brought records of the cluster."""
    metric = "kafka_mesh_engine_bytes_in_total"
    return {name for name in ENGINES.values() if bench.mesh.metric(metric, cluster=cluster.name, engine=name)}


def magic_numbers(cluster: KafkaCluster, topic: str) -> set[int]:
    """The formats of the batches in the log: the byte behind offset, length, and leader epoch or CRC."""
    found = set()
    for segment in cluster.folder.glob(f"logs/{topic}-*/*.log"):
        content, at = segment.read_bytes(), 0
        while at < len(content):
            found.add(content[at + 16])
            at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
    return found


@pytest.mark.timeout(240)
def test_old_brokers(bench: Bench, version: str) -> None:
    """Records of five codecs and an aborted transaction, once to two members and again when a third is killed."""
    bench.create_topics(PARTITIONS)
    mesh = bench.start_mesh(upstream={name: {"engine": engine} for name, engine in ENGINES.items()})
    others = [bench.confluent(name, commit="sync") for name in ("member-1", "member-2")]
    doomed = bench.confluent("doomed", commit="none")
    for member in bench.members:
        member.until_assigned()
    with bench.feeding_throughout(rate=600):
        for member in bench.members:
            member.until_delivered(20)
    abort(bench)
    bench.feed(600)
    eventually(
        "only it holds records",
        lambda: mesh.metric("kafka_mesh_in_flight_records") == mesh.in_flight("doomed") > 0,
    )
    doomed.kill()
    bench.account_when_all_arrived(members=others).assert_each_once()
    bench.account_when_all_arrived().assert_nothing_lost_or_altered()
    until_true_offsets_are_stored(bench)
    assert is_static(bench) is (version not in WITHOUT_STATIC_MEMBERS)
    assert {cluster.name: carriers(bench, cluster) for cluster in bench.clusters} == {
        name: {engine} for name, engine in ENGINES.items()
    }
    bench.close_members()


def old_shape(identity: str, number: int) -> Record:
    """A record without headers, which came with Kafka 0.11."""
    return replace(varied_record(identity, number), headers=())


@pytest.mark.timeout(240)
@pytest.mark.parametrize("version", [WITH_OLD_FORMATS], indirect=True)
def test_records_of_the_formats_before_0_11(bench: Bench) -> None:
    """Such records of a topic that has been configured for the new format since: librdkafka reads them for the raw
    engine."""
    bench.feed_as(codecs=CODECS[:-1], shape=old_shape, is_idempotent=False)
    for cluster in bench.clusters:
        cluster.create_topic(bench.topic, PARTITIONS, OLD_FORMAT)
    bench.feed(600)
    for cluster in bench.clusters:
        assert magic_numbers(cluster, bench.topic) == {1}
    bench.start_mesh(upstream={cluster.name: {"engine": "raw"} for cluster in bench.clusters})
    for name in ("member-1", "member-2"):
        bench.confluent(name, commit="sync").until_assigned()
    bench.account_when_all_arrived().assert_each_once()
    for cluster in bench.clusters:
        assert carriers(bench, cluster) == {"librdkafka"}
        cluster.set_topic(bench.topic, {"message.format.version": "2.8"})

    def is_in_use() -> bool:
        bench.feed(60)  # a broker learns of a topic's configuration after it has answered the change
        return all(magic_numbers(cluster, bench.topic) == {1, 2} for cluster in bench.clusters)

    eventually("records of both formats", is_in_use)
    bench.feed(600)
    bench.account_when_all_arrived().assert_each_once()
    until_true_offsets_are_stored(bench)
    bench.close_members()
