"""Real clients whose records interceptors see: the cluster stores the interceptors' results, gaps and dropped batches
stop no client, and kept records come once and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from mesh.interceptors.shipped.sample import Sample, SampleConfig
from mesh.interceptors.spi import KEEP, Record
from tests.clients.bench import JAVASCRIPT, KNOWN_TO_ALL, Client
from tests.clients.producing import Feed
from tests.clients.selection import OFTEN, clients
from tests.integration.feeding import stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.records import Stored, account
from tests.integration.test_interceptors import CODECS
from tests.interceptors.fakes import FETCH
from tests.relay.cluster import SeveralBrokers
from tests.relay.front import Front, relayed
from tests.relay.matrix import (
    COUNT,
    PRODUCERS,
    created,
    in_partitions,
    member_of,
    number_of,
    ordered,
    produced,
    started,
)

pytestmark = [pytest.mark.kafka, pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}")]

PART = 0.4
KEYS = {Feed(bootstrap_servers="", client_id="", topic="", count=COUNT).key(number) for number in range(COUNT)}


def is_kept(key: bytes | None, part: float) -> bool:
    return Sample(SampleConfig(part=part)).intercept(Record(key, b""), FETCH) is KEEP


ONE_KEY = min(
    part for part in (number / 10_000 for number in range(1, 10_000)) if any(is_kept(key, part) for key in KEYS)
)
"""The part with one key: all records of the other partitions are dropped."""


@pytest.fixture(scope="module")
def front(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    interceptors = [
        {
            "name": "who",
            "type": "stamp",
            "topics": ["test-produced*"],
            "on": ["produce"],
            "config": {"headers": {"by": "{client_id}"}},
            "isolation": "process",
        },
        {"name": "few", "type": "sample", "topics": ["test-dropped*"], "on": ["produce"], "config": {"part": PART}},
        {"name": "some", "type": "sample", "topics": ["test-consumed*"], "on": ["fetch"], "config": {"part": PART}},
        {"name": "one", "type": "sample", "topics": ["test-one-key*"], "on": ["fetch"], "config": {"part": ONE_KEY}},
        {
            "name": "at",
            "type": "stamp",
            "topics": ["test-changed*"],
            "on": ["fetch"],
            "config": {"headers": {"of": "{topic}"}},
            "isolation": "process",
        },
    ]
    with relayed(cluster, tmp_path_factory.mktemp("relay"), interceptors) as front:
        yield front


@pytest.fixture
def topic(cluster: SeveralBrokers, request: pytest.FixtureRequest) -> str:
    """One partition for each node to lead; every node has a replica."""
    return created(cluster, request.node.name)


@pytest.mark.parametrize("client", clients(PRODUCERS, quick=True, often=OFTEN))
def test_produced(cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path) -> None:
    feed = Feed(bootstrap_servers=str(front.bootstrap), client_id="producer", topic=topic, count=COUNT)
    acknowledged = produced(client, feed, tmp_path)
    stored = list(stored_upstream(cluster, topic))
    assert sorted(number_of(each) for each in stored) == sorted(acknowledged) == list(range(COUNT))
    for each in stored:
        assert acknowledged[number_of(each)] in {(each.partition, each.offset), (-1, -1)}
        assert ("by", b"producer") in [(name, bytes(value or b"")) for name, value in each.record.headers]


@pytest.mark.parametrize("client", [Client.CONFLUENT, Client.JAVA, Client.FRANZ])
def test_dropped(cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path) -> None:
    """Each record is acknowledged, and the kept ones are stored, in order."""
    feed = Feed(bootstrap_servers=str(front.bootstrap), client_id="producer", topic=topic, count=COUNT)
    acknowledged = produced(client, feed, tmp_path)
    assert sorted(acknowledged) == list(range(COUNT))
    stored = in_partitions(list(stored_upstream(cluster, topic)))
    numbers = {partition: [int(each.rpartition("-")[2]) for _, each in found] for partition, found in stored.items()}
    kept = [number for number in range(COUNT) if is_kept(feed.key(number), PART)]
    assert sorted(number for found in numbers.values() for number in found) == kept
    assert all(found == sorted(found) for found in numbers.values())
    assert all([offset for offset, _ in found] == list(range(len(found))) for found in stored.values())


@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_consumed(cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path) -> None:
    direct = Feed(bootstrap_servers=cluster.every_address, client_id="direct", topic=topic, count=COUNT)
    produced(Client.CONFLUENT, direct, tmp_path)
    check_consumed(cluster, front, topic, client, tmp_path, PART)


@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_changed(cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path) -> None:
    """Batches of each codec that the client knows; the interceptor rewrites each of them."""
    codecs = KNOWN_TO_ALL if client in JAVASCRIPT else CODECS
    feed = Feed(bootstrap_servers=cluster.every_address, client_id="direct", topic=topic, count=COUNT)
    for at, codec in enumerate(codecs):
        producer = Producer({"bootstrap.servers": cluster.every_address, "compression.type": codec, "linger.ms": 50})
        for number in range(at, COUNT, len(codecs)):
            producer.produce(topic, feed.value(number), feed.key(number))
        assert producer.flush(60) == 0
    stored = list(stored_upstream(cluster, topic))
    assert len(stored) == COUNT
    of = ("of", topic.encode())
    changed = [replace(each, record=replace(each.record, headers=(*each.record.headers, of))) for each in stored]
    check_given(front, topic, client, tmp_path, changed)


@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_one_key(cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path) -> None:
    direct = Feed(bootstrap_servers=cluster.every_address, client_id="direct", topic=topic, count=COUNT)
    produced(Client.CONFLUENT, direct, tmp_path)
    check_consumed(cluster, front, topic, client, tmp_path, ONE_KEY)


def check_consumed(
    cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path, part: float
) -> None:
    kept = [each for each in stored_upstream(cluster, topic) if is_kept(each.record.key, part)]
    assert 0 < len(kept) < COUNT
    if part == ONE_KEY:
        assert len({each.partition for each in kept}) == 1
    check_given(front, topic, client, tmp_path, kept)


def check_given(front: Front, topic: str, client: Client, tmp_path: Path, kept: Sequence[Stored]) -> None:
    """Checks that a member gets these records, once and in order."""
    script = member_of(str(front.bootstrap), topic, client)
    member = started(client, script, tmp_path)
    try:
        member.until_delivered(len(kept))
        member.assert_running()
        member.close()
    finally:
        member.kill()
    account({each.record.id: each for each in kept}, member.deliveries).assert_each_once()
    assert ordered(member) == in_partitions(kept)
