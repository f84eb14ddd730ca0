"""A client that may only read a topic fetches it as a replica, openly and behind a tagged field of a wrong size: the
high watermark stays, and a producer with acks=all gets no answer before the real replica has its record."""

from __future__ import annotations

from collections.abc import Iterator
from select import select
from struct import pack
from uuid import UUID

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.trees import Tree, read_tree, write_tree
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.processes import START, eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.integration.relay_mesh import RelayMesh
from tests.interceptors.fakes import batch
from tests.relay.cluster import NODES, SeveralBrokers
from tests.router.authorizer.sides import Client
from tests.wire.entities import frame

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
TOPIC = "replicated"
LEADER, FOLLOWER = NODES[1:]
REPLICATED, UNREPLICATED = b"has two replicas", b"has one replica"
NOT_ALLOWED = 29
STAYS_IN_SYNC = {"replica.lag.time.max.ms": "600000", "broker.session.timeout.ms": "600000"}
"""A follower that hangs stays in the ISR for the time of the test."""
RULES = {"rules": [{"principals": ["User:ANONYMOUS"], "operations": ["read"], "topics": [TOPIC]}]}
HIDDEN_FROM = 15
"""The first version with the replica in a tagged field."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    cluster = SeveralBrokers("eu", kafka_jars(), tmp_path_factory.mktemp("replicas"), more=STAYS_IN_SYNC)
    try:
        cluster.create_topic(TOPIC, 1, {"min.insync.replicas": "2"}, places=[[LEADER, FOLLOWER]])
        yield cluster
    finally:
        cluster.node(FOLLOWER).thaw()
        cluster.end()


def header(api_key: ApiKey, version: int) -> bytes:
    return pack(">hhih", api_key, version, 7, 1) + b"c" + (b"\0" if version >= 12 else b"")


def produce(record: bytes) -> bytes:
    partition = {"index": 0, "records": batch(record)}
    topics = [{"name": TOPIC, "partition_data": [partition]}]
    tree = {"acks": -1, "timeout_ms": 600_000, "topic_data": topics}
    return frame(pack(">hhih", ApiKey.PRODUCE, 8, 7, 1) + b"c" + write_tree(ApiKey.PRODUCE, 8, Direction.REQUEST, tree))


def stored(producer: RawConnection, record: bytes) -> bool:
    """Produces a record; False if the leader does not know yet that it leads."""
    producer.tell(produce(record))
    answer = producer.answer()
    assert answer is not None
    (topic,) = read_tree(ApiKey.PRODUCE, 8, Direction.RESPONSE, answer[4:])["responses"]
    return not topic["partition_responses"][0]["error_code"]


def fetch(version: int, topic_id: UUID, offset: int, replica: int = -1) -> bytes:
    partitions = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
    tree: Tree = {
        "replica_id": replica,
        "replica_state": {"replica_id": replica, "replica_epoch": -1},
        "max_wait_ms": 100,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": TOPIC, "topic_id": topic_id, "partitions": partitions}],
    }
    return header(ApiKey.FETCH, version) + write_tree(ApiKey.FETCH, version, Direction.REQUEST, tree)


def hidden(version: int, topic_id: UUID, offset: int, replica: int) -> bytes:
    """A Fetch whose cluster id is null, with a greater size. In the further bytes a broker finds a replica's state."""
    state = b"\1\x0d" + pack(">iq", replica, -1) + b"\0"
    return fetch(version, topic_id, offset)[:-1] + b"\2\0" + bytes([1 + len(state)]) + b"\0" + state + b"\x60\0"


def told(version: int, answer: bytes) -> tuple[int, int, bytes]:
    """The error, the high watermark and the records of a partition."""
    start = 4 + (version >= 12)
    (topic,) = read_tree(ApiKey.FETCH, version, Direction.RESPONSE, answer[start:])["responses"]
    (partition,) = topic["partitions"]
    return partition["error_code"], partition["high_watermark"], bytes(partition["records"] or b"")


def test_a_reader_is_no_replica(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> None:
    leader = cluster.addresses[LEADER]
    producer, watching = RawConnection(leader), RawConnection(leader)
    eventually("a leader with a follower", lambda: stored(producer, REPLICATED), timeout=START)
    topic_id = cluster.ask(3, 12, topics=[{"name": TOPIC}]).topics[0].topic_id
    mesh = RelayMesh(tmp_path_factory.mktemp("mesh"), cluster.every_address, NODES, listener={"authorization": RULES})
    reader = RawConnection(Endpoint.of(mesh.address_of(LEADER)))

    def has_read() -> bool:
        """True when the mesh knows the topic id."""
        answer = reader.ask(fetch(17, topic_id, 0))
        return answer is not None and REPLICATED in told(17, answer)[2]

    def is_acknowledged() -> bool:
        assert producer._socket is not None
        return bool(select([producer._socket], [], [], 0)[0])

    def seen() -> tuple[int, int, bytes]:
        answer = watching.ask(fetch(12, topic_id, 0))
        assert answer is not None
        return told(12, answer)

    eventually("the record", has_read, timeout=START)
    before = size_of_log(leader)
    cluster.node(FOLLOWER).freeze()
    producer.tell(produce(UNREPLICATED))
    eventually("a record at the leader alone", lambda: size_of_log(leader) > before)
    for version in RELAYED_APIS[ApiKey.FETCH].all():
        for offset in (1, 2):
            answer = reader.ask(fetch(version, topic_id, offset, FOLLOWER))
            assert answer is not None and told(version, answer)[0] == NOT_ALLOWED and UNREPLICATED not in answer
            if version >= HIDDEN_FROM:
                assert reader.ask(hidden(version, topic_id, offset, FOLLOWER)) is None
        error, high_watermark, records = seen()
        assert (error, high_watermark) == (0, 1) and REPLICATED in records and UNREPLICATED not in records
        assert not is_acknowledged()

    # At the broker itself the last request counts as that of the replica.
    answer = watching.ask(hidden(17, topic_id, 2, FOLLOWER))
    assert answer is not None and told(17, answer)[0] == 0
    eventually("acknowledgement with one copy", is_acknowledged)
    assert seen()[1] == 2
    reader.close()
    mesh.kill()


def size_of_log(leader: Endpoint) -> int:
    client = Client(str(leader), None)
    answer = client.ask(ApiKey.DESCRIBE_LOG_DIRS, 1, {"topics": [{"topic": TOPIC, "partitions": [0]}]})
    client.close()
    assert answer is not None
    return sum(
        each["partition_size"] for one in answer["results"] for topic in one["topics"] for each in topic["partitions"]
    )
