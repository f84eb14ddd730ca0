"""Two clusters hand out the same producer ids. A union tags the ids of its default cluster when it writes them to
others. Without tags a broker takes one producer's batch for a repeated one of the other, acknowledges it, and drops
it."""

from __future__ import annotations

from struct import Struct

import pytest

from mesh.records.batch import seal
from mesh.records.encode import encode_batch
from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, read_tree, write_tree
from tests.integration.feeding import log_ends
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
RECORDS = 10
_HEAD = Struct(">hhih")
_PRODUCER = Struct(">qhi")
_PRODUCER_AT = 43


def asked(at: RawConnection, api_key: ApiKey, version: int, request: Tree) -> Tree:
    body = write_tree(api_key, version, Direction.REQUEST, request)
    tags = b"\0" if is_flexible(api_key, version) else b""
    answer = at.ask(_HEAD.pack(api_key, version, 7, -1) + tags + body)
    assert answer is not None
    start = 4 + has_tagged_response_header(api_key, version)
    return read_tree(api_key, version, Direction.RESPONSE, answer[start:])


def new_producer(at: RawConnection) -> int:
    request: Tree = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    found: list[int] = []

    def has_answered() -> bool:
        answer = asked(at, ApiKey.INIT_PRODUCER_ID, 4, request)
        found.append(answer["producer_id"])
        return bool(answer["error_code"] == 0)

    eventually("it hands out producer ids", has_answered)
    return found[-1]


def produce(at: RawConnection, topic: str, producer_id: int, sequence: int) -> tuple[int, int]:
    """Error and offset of a batch of an idempotent producer."""
    data = bytearray(encode_batch(0, [(index, 0, None, b"value", None) for index in range(RECORDS)]).data)
    _PRODUCER.pack_into(data, _PRODUCER_AT, producer_id, 0, sequence)
    seal(data)
    partition = {"index": 0, "records": bytes(data)}
    request = {"acks": -1, "timeout_ms": 10_000, "topic_data": [{"name": topic, "partition_data": [partition]}]}
    (answered,) = asked(at, ApiKey.PRODUCE, 9, request)["responses"][0]["partition_responses"]
    return answered["error_code"], answered["base_offset"]


def node_of(bootstrap: RawConnection, topic: str) -> RawConnection:
    """A connection to the leader of the first partition."""
    answer = asked(bootstrap, ApiKey.METADATA, 12, {"topics": [{"name": topic}]})
    leader = answer["topics"][0]["partitions"][0]["leader_id"]
    (broker,) = (each for each in answer["brokers"] if each["node_id"] == leader)
    return RawConnection(Endpoint(broker["host"], broker["port"]))


def test_records_of_two_producers_with_one_id(kafka_pair: tuple[KafkaCluster, KafkaCluster], union: UnionMesh) -> None:
    us = kafka_pair[1]
    for topic in ("tagged", "untagged"):
        us.create_topic(topic, 1)
    direct = RawConnection(Endpoint.of(us.bootstrap_servers))
    bootstrap = RawConnection(Endpoint.of(union.bootstrap_servers))
    through = node_of(bootstrap, "us.tagged")
    own, foreign = new_producer(direct), new_producer(bootstrap)
    while own != foreign:
        if own < foreign:
            own = new_producer(direct)
        else:
            foreign = new_producer(bootstrap)
    # Without a tag: the second producer's records are acknowledged, and are not stored.
    assert produce(direct, "untagged", own, 0) == (0, 0)
    assert produce(direct, "untagged", foreign, 0) == (0, 0)
    assert log_ends(us, "untagged") == {0: RECORDS}
    # With a tag they are stored, and so are the first one's next records; a repeated batch is recognized.
    assert produce(direct, "tagged", own, 0) == (0, 0)
    assert produce(through, "us.tagged", foreign, 0) == (0, RECORDS)
    assert produce(direct, "tagged", own, RECORDS) == (0, 2 * RECORDS)
    assert produce(through, "us.tagged", foreign, 0) == (0, RECORDS)
    assert log_ends(us, "tagged") == {0: 3 * RECORDS}
    for connection in (direct, bootstrap, through):
        connection.close()
