"""Share sessions of clients under rules: a right that comes while a session runs counts, and a client that may not read
the group leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from confluent_kafka import Producer

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree, read_tree
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.integration.relay_mesh import RelayMesh
from tests.runtime.interception.requests import framed

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
GROUP, GIVEN, LATER = "shared-under-rules", "shared-from-the-start", "shared-later"
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
SESSIONS, PARTITIONS = 8, 90_000
ALLOWED = 60 << 20
"""Bytes. The mesh kept 150 MiB of these sessions once."""


def rules(*topics: str) -> str:
    rule: dict[str, Any] = {"principals": ["User:ANONYMOUS"], "topics": list(topics)}
    return yaml.safe_dump({"rules": [rule | {"groups": [GROUP]}]})


class ShareMember:
    """A member of a share group on one connection, which fetches in one session."""

    def __init__(self, address: str) -> None:
        self.connection = RawConnection(Endpoint.of(address))
        self._epoch = 0

    def fetch(self, *topics: UUID, partitions: Sequence[int] = (0,), group: str = GROUP) -> Tree:
        """The answer to a ShareFetch that adds these topics to the session."""
        named = [
            {"topic_id": each, "partitions": [{"partition_index": number} for number in partitions]} for each in topics
        ]
        request = {
            "group_id": group,
            "member_id": MEMBER,
            "share_session_epoch": self._epoch,
            "max_wait_ms": 100,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 100,
            "batch_size": 100,
            "topics": named,
            "forgotten_topics_data": [],
        }
        self.connection.tell(bytes(framed(ApiKey.SHARE_FETCH, 1, request)[1]))
        self._epoch += 1
        answer = self.connection.answer()
        assert answer is not None
        return read_tree(ApiKey.SHARE_FETCH, 1, Direction.RESPONSE, memoryview(answer)[5:])


def join(address: str, *topics: str) -> None:
    """Joins the group at its broker, which then keeps the state of these topics for it."""
    connection = RawConnection(Endpoint.of(address))
    heartbeat = {"group_id": GROUP, "member_id": MEMBER, "member_epoch": 0, "subscribed_topic_names": list(topics)}

    def has_joined() -> bool:
        connection.tell(bytes(framed(ApiKey.SHARE_GROUP_HEARTBEAT, 1, heartbeat)[1]))
        answer = connection.answer()
        assert answer is not None
        told = read_tree(ApiKey.SHARE_GROUP_HEARTBEAT, 1, Direction.RESPONSE, memoryview(answer)[5:])
        return bool(told["error_code"] == ErrorCode.NONE)

    eventually("a member", has_joined)
    connection.close()


def id_of(address: str, topic: str) -> UUID:
    connection = RawConnection(Endpoint.of(address))
    asked = {"topics": [{"topic_id": UUID(int=0), "name": topic}]}
    connection.tell(bytes(framed(ApiKey.METADATA, 12, asked)[1]))
    answer = connection.answer()
    connection.close()
    assert answer is not None
    (found,) = read_tree(ApiKey.METADATA, 12, Direction.RESPONSE, memoryview(answer)[5:])["topics"]
    topic_id: UUID = found["topic_id"]
    return topic_id


def test_a_right_that_comes_while_a_session_runs_counts(kafka: KafkaCluster, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(rules(GIVEN))
    for topic in (GIVEN, LATER):
        kafka.create_topic(topic, 1)
    given, later = (id_of(kafka.bootstrap_servers, topic) for topic in (GIVEN, LATER))
    kafka.committed("any")  # its coordinator is ready then
    join(kafka.bootstrap_servers, GIVEN, LATER)
    mesh = RelayMesh(tmp_path, kafka.bootstrap_servers, listener={"authorization": {"rules_file": str(file)}})
    member = ShareMember(mesh.address_of(1))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    def told(answer: Tree) -> dict[UUID, tuple[int, bool]]:
        """The error of each topic in an answer, and whether it has records."""
        assert answer["error_code"] == ErrorCode.NONE
        partitions = [(each["topic_id"], each["partitions"][0]) for each in answer["responses"]]
        return {topic_id: (each["error_code"], bool(each["records"])) for topic_id, each in partitions}

    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    try:
        first = eventually("both ids are known", lambda: told(member.fetch(given, later)))
        assert first[later] == (refused, False)
        assert told(member.fetch())[later] == (refused, False)
        file.write_text(rules(GIVEN, LATER))

        def come() -> bool:
            producer.produce(LATER, b"x", partition=0)
            producer.flush(30)
            return told(member.fetch()).get(later, (0, False))[1]

        eventually("records of the topic", come, timeout=30)
        file.write_text(rules(GIVEN))

        def ended() -> bool:
            return bool(member.fetch()["error_code"] == ErrorCode.SHARE_SESSION_NOT_FOUND)

        eventually("a right that is taken away counts, too", ended)
    finally:
        member.connection.close()
        mesh.kill()


def test_a_client_that_may_not_read_the_group_leaves_nothing_behind(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = "shared-by-strangers"
    kafka.create_topic(topic, 1)
    topic_id = id_of(kafka.bootstrap_servers, topic)
    rule = {"principals": ["User:ANONYMOUS"], "topics": [topic], "operations": ["describe"]}
    mesh = RelayMesh(tmp_path, kafka.bootstrap_servers, listener={"authorization": {"rules": [rule]}})

    def resident() -> int:
        return int(Path(f"/proc/{mesh.pid}/statm").read_text().split()[1]) * 4_096

    connection = RawConnection(Endpoint.of(mesh.address_of(1)))
    try:
        before = resident()
        for number in range(SESSIONS + 1):
            member = ShareMember(mesh.address_of(1))
            member.connection = connection
            answer = member.fetch(topic_id, partitions=range(PARTITIONS), group=f"{GROUP}-{number}")
            assert answer["error_code"] == ErrorCode.GROUP_AUTHORIZATION_FAILED
            before = resident() if number == 0 else before  # reading such a request takes memory that is used again
        assert resident() - before < ALLOWED
    finally:
        connection.close()
        mesh.kill()
