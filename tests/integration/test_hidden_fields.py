"""Fetch requests with a topic, or the id of a replica, behind a tagged field of a wrong size: the broker finds it, and
nothing of it passes through rules or interceptors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.spans import MAX_REQUEST_ELEMENTS
from mesh.wire.trees import read_tree, write_tree
from mesh.wire.writer import encode_unsigned_varint
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import START, eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.integration.relay_mesh import RelayMesh
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
MINE, SECRET = "hidden-mine", "hidden-secret"
CARD = b"4111111111111111"
RULES: dict[str, Any] = {
    "authorization": {"rules": [{"principals": ["User:ANONYMOUS"], "operations": ["read"], "topics": [MINE]}]}
}
CARDS = {"name": "cards", "type": "mask", "topics": [SECRET], "on": ["fetch"], "config": {"paths": ["card"]}}
SIZE = {"name": "size", "type": "size", "topics": [SECRET], "on": ["produce"], "config": {"maximum": 100}}
WITH_TAGS = range(17, 19)
"""The versions whose partitions have a tagged field in requests."""
NODE = 1


@pytest.fixture(scope="module")
def topics(kafka: KafkaCluster) -> dict[str, UUID]:
    """The ids of both topics, which have one record each."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for topic in (MINE, SECRET):
        kafka.create_topic(topic, 1)
        producer.produce(topic, b'{"card":"%s"}' % CARD, partition=0)
    assert producer.flush(START) == 0
    broker = RawConnection(Endpoint.of(kafka.bootstrap_servers))
    body = write_tree(ApiKey.METADATA, 12, Direction.REQUEST, {"topics": [{"name": MINE}, {"name": SECRET}]})
    answer = broker.ask(header(ApiKey.METADATA, 12) + body)
    broker.close()
    assert answer is not None
    found = read_tree(ApiKey.METADATA, 12, Direction.RESPONSE, answer[5:])
    return {topic["name"]: topic["topic_id"] for topic in found["topics"]}


def header(api_key: ApiKey, version: int) -> bytes:
    return pack(">hhih", api_key, version, 7, 1) + b"c\0"


def partition(tags: bytes = b"\0") -> bytes:
    """Partition 0 from its beginning."""
    return pack(">iiqiqi", 0, -1, 0, -1, -1, 1 << 20) + tags


def topic(id: UUID, tags: bytes = b"\0") -> bytes:
    return id.bytes + b"\2" + partition(tags) + b"\0"


def fetch(version: int, topics: list[bytes], tags: bytes = b"\0") -> bytes:
    """A Fetch without a session, forgotten topics or a rack."""
    replica = pack(">i", -1) if version < 15 else b""
    start = replica + pack(">iiibii", 500, 1, 1 << 20, 0, 0, -1)
    return header(ApiKey.FETCH, version) + start + bytes([len(topics) + 1]) + b"".join(topics) + b"\1\1" + tags


def with_hidden_topic(version: int, seen: UUID, hidden: UUID) -> bytes:
    """A Fetch whose first partition has a directory id of 16 bytes, with a greater size. A reader that skips by the
    size finds the topic `seen` twice. A broker reads 16 bytes, then the topic `hidden` and the end of the request."""
    rest = b"\0" + topic(hidden) + b"\1\1\0"
    tags = b"\1\0" + bytes([16 + len(rest)]) + bytes(16) + rest
    return fetch(version, [topic(seen, tags), topic(seen)])


def with_hidden_replica(version: int, seen: UUID) -> bytes:
    """A Fetch whose cluster id, null, has a greater size. In the further bytes a broker finds a replica's state."""
    state = b"\1\x0d" + pack(">iq", 5, 0) + b"\0"
    return fetch(version, [topic(seen)], b"\2\0" + bytes([1 + len(state)]) + b"\0" + state + b"\x60\0")


def fetched(connection: RawConnection, version: int, request: bytes) -> dict[UUID, tuple[int, bytes]] | None:
    """The error and the records of each topic in the answer; None if the connection was closed instead."""
    answer = connection.ask(request)
    if answer is None:
        return None
    tree = read_tree(ApiKey.FETCH, version, Direction.RESPONSE, answer[5:])
    assert not tree["error_code"], tree
    return {
        each["topic_id"]: (one["error_code"], bytes(one["records"] or b""))
        for each in tree["responses"]
        for one in each["partitions"]
    }


@pytest.fixture(scope="module", params=[pytest.param("relay", marks=pytest.mark.smoke), "union"])
def doors(
    request: pytest.FixtureRequest,
    kafka_pair: tuple[KafkaCluster, KafkaCluster],
    topics: dict[str, UUID],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, str]]:
    """The addresses of a node, by what is in front of it."""
    folder = tmp_path_factory.mktemp("hidden")
    intercepted, interceptors = {"interceptors": ["cards", "size"]}, {"interceptors": [CARDS, SIZE]}
    meshes: dict[str, Any] = {}
    for name, listener, process in (("rules", RULES, {}), ("interceptors", intercepted, interceptors)):
        if request.param == "relay":
            cluster = kafka_pair[0].bootstrap_servers
            meshes[name] = RelayMesh(folder, cluster, [NODE], listener=listener, name=name, process=process)
        else:
            meshes[name] = UnionMesh(folder, *kafka_pair, listener=listener, name=name, process=process)
    node = [NODE] if request.param == "relay" else ["eu", NODE]
    yield {name: mesh.address_of(*node) for name, mesh in meshes.items()}
    for mesh in meshes.values():
        mesh.kill()


def test_what_a_broker_finds_behind_a_wrong_size(kafka: KafkaCluster, topics: dict[str, UUID]) -> None:
    """Tests the requests themselves."""
    broker = RawConnection(Endpoint.of(kafka.bootstrap_servers))
    for version in WITH_TAGS:
        found = fetched(broker, version, with_hidden_topic(version, topics[MINE], topics[SECRET]))
        assert found is not None and found.keys() == set(topics.values())
        assert all(CARD in records for _, records in found.values())
    for version in range(15, 19):
        found = fetched(broker, version, with_hidden_replica(version, topics[MINE]))
        assert found is not None and found[topics[MINE]][0], "the broker has no replica 5"
    broker.close()


def test_rules(doors: dict[str, str], topics: dict[str, UUID]) -> None:
    mine, secret = topics[MINE], topics[SECRET]
    client = RawConnection(Endpoint.of(doors["rules"]))
    # A mesh knows the names of topic ids from the first request on.

    def has_record() -> bool:
        found = fetched(client, 17, fetch(17, [topic(mine)]))
        return found is not None and CARD in found[mine][1]

    eventually("the record", has_record, timeout=START)
    for version in range(13, 19):
        found = fetched(client, version, fetch(version, [topic(mine), topic(secret)]))
        assert found is not None and CARD in found[mine][1] and found[secret] == (29, b"")
    for version in WITH_TAGS:
        assert fetched(client, version, with_hidden_topic(version, mine, secret)) is None
    for version in range(13, 19):
        unknown = fetch(version, [topic(mine, b"\1\x60\1x")], b"\1\x60\1x") + b"tail"
        found = fetched(client, version, unknown)
        assert found is not None and CARD in found[mine][1], "what the mesh does not know is left out"
    for version in range(15, 19):
        openly = b"\1\1\x0d" + pack(">iq", 5, 0) + b"\0"
        found = fetched(client, version, fetch(version, [topic(mine)], openly))
        assert found is not None and found[mine] == (29, b"")
        assert fetched(client, version, with_hidden_replica(version, mine)) is None
    client.close()


def in_session(connection: RawConnection, topics: list[str], session: int, epoch: int) -> tuple[int, int, bytes]:
    """The error and the session in the answer to a Fetch of partition 0 of some topics, and all of its bytes."""
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    asked = [{"topic": each, "partitions": partitions} for each in topics]
    tree = {"max_wait_ms": 500, "min_bytes": 1, "session_id": session, "session_epoch": epoch, "topics": asked}
    body = write_tree(ApiKey.FETCH, 12, Direction.REQUEST, {**tree, "max_bytes": 1 << 20})
    answer = connection.ask(header(ApiKey.FETCH, 12) + body)
    assert answer is not None
    found = read_tree(ApiKey.FETCH, 12, Direction.RESPONSE, answer[5:])
    return found["error_code"], found["session_id"], answer


def test_the_fetch_session_of_another_connection(kafka: KafkaCluster, doors: dict[str, str]) -> None:
    """A broker lets any connection continue a session, and judges it by the principal, which is that of the mesh."""
    for door, code in (("interceptors", 70), ("rules", 70)):
        owner, client = (RawConnection(Endpoint.of(each)) for each in (kafka.bootstrap_servers, doors[door]))
        error, session, answer = in_session(owner, [SECRET], 0, 0)
        assert not error and session and CARD in answer
        error, own, answer = in_session(client, [MINE], 0, 0)
        assert not error and CARD in answer
        for epoch in (1, 2):
            error, _, answer = in_session(client, [], session, epoch)
            assert error == code and CARD not in answer
        error, _, _ = in_session(client, [], own, 1)
        assert error == (0 if own else code)
        owner.close()
        client.close()


def test_a_fetch_that_ends_the_session_of_another_connection(kafka: KafkaCluster, doors: dict[str, str]) -> None:
    """A broker ends the session that a Fetch without a session, or with a new one, names."""
    for address in doors.values():
        owner, client = (RawConnection(Endpoint.of(each)) for each in (kafka.bootstrap_servers, address))
        error, session, _ = in_session(owner, [SECRET], 0, 0)
        assert not error and session
        for epoch in (-1, 0):
            for asked in ([MINE], [SECRET], [MINE, SECRET]):
                error, _, _ = in_session(client, asked, session, epoch)
                assert not error
        error, _, _ = in_session(owner, [], session, 1)
        assert not error
        owner.close()
        client.close()


def test_at_one_address_a_client_under_rules_has_no_session(
    kafka: KafkaCluster, topics: dict[str, UUID], tmp_path: Path
) -> None:
    """The mesh refuses to continue one, so each second Fetch of a consumer got an error."""
    mesh = RelayMesh(tmp_path, kafka.bootstrap_servers, listener={**RULES, "nodes": "one"})
    client = RawConnection(Endpoint.of(mesh.bootstrap_servers))
    error, session, answer = in_session(client, [MINE], 0, 0)
    assert (error, session) == (0, 0) and CARD in answer
    client.close()
    mesh.kill()


def test_too_many_elements(kafka: KafkaCluster, doors: dict[str, str]) -> None:
    """Requests of at most 1 MiB. One of 16 MiB kept all clients waiting for seconds while it was read."""
    for count in (1_000, MAX_REQUEST_ELEMENTS + 1):
        fetched = pack(">iiiibii", -1, 0, 0, 1 << 20, 0, 0, -1) + _named([MINE] * count) + b"\1\1\0"
        produced = b"\0" + pack(">hi", 1, 1_000) + _named([f"{each:06}" for each in range(count)]) + b"\0"
        for address in (kafka.bootstrap_servers, *doors.values()):
            client = RawConnection(Endpoint.of(address))
            is_read = address == kafka.bootstrap_servers or count <= MAX_REQUEST_ELEMENTS
            for request in (header(ApiKey.FETCH, 12) + fetched, header(ApiKey.PRODUCE, 9) + produced):
                assert (client.ask(request) is not None) == is_read, (address, count)
            client.close()


def _named(topics: list[str]) -> bytes:
    """Topics without partitions."""
    elements = [encode_unsigned_varint(len(each) + 1) + each.encode() + b"\1\0" for each in topics]
    return encode_unsigned_varint(len(topics) + 1) + b"".join(elements)


def test_interceptors(doors: dict[str, str], topics: dict[str, UUID]) -> None:
    mine, secret = topics[MINE], topics[SECRET]
    client = RawConnection(Endpoint.of(doors["interceptors"]))
    for version in range(13, 19):
        found = fetched(client, version, fetch(version, [topic(mine), topic(secret)]))
        assert found is not None and CARD in found[mine][1] and found[secret][1] and CARD not in found[secret][1]
    for version in WITH_TAGS:
        assert fetched(client, version, with_hidden_topic(version, mine, secret)) is None
    client.close()
