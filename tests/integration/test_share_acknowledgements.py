"""Share acknowledgements that a broker does not store in time, and that a member repeats, as Java's client does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually, free_port
from tests.router.authorizer.sides import Client

COUNT: Final = 10
ACCEPT, RELEASE = 1, 2
EVEN_ACCEPTED: Final = {offset: RELEASE if offset % 2 else ACCEPT for offset in range(COUNT)}
_FETCH, _ACKNOWLEDGE, _HEARTBEAT = 1, 1, 1
"""Versions of the share APIs."""


class Sharer:
    """A share member of raw requests, with a session at the only node that leads the topic."""

    def __init__(self, mesh: Mesh, group: str, topic: str, clients: list[Client]) -> None:
        self._member = {"group_id": group, "member_id": str(uuid4())}
        first = Client(mesh.bootstrap_servers, None)
        described = _answer(first, ApiKey.METADATA, 12, {"topics": [{"name": topic}]})
        self._topic_id: UUID = described["topics"][0]["topic_id"]
        (leader,) = {each["leader_id"] for each in described["topics"][0]["partitions"]}
        (node,) = [each for each in described["brokers"] if each["node_id"] == leader]
        keys = {"key_type": 0, "coordinator_keys": [group]}
        (found,) = _answer(first, ApiKey.FIND_COORDINATOR, 4, keys)["coordinators"]
        self._leader = Client(f"{node['host']}:{node['port']}", None)
        coordinator = Client(f"{found['host']}:{found['port']}", None)
        clients += [first, self._leader, coordinator]
        joining = {**self._member, "member_epoch": 0, "subscribed_topic_names": [topic]}
        assert _answer(coordinator, ApiKey.SHARE_GROUP_HEARTBEAT, _HEARTBEAT, joining)["error_code"] == 0
        self._epoch = 0

    def fetched(self) -> dict[int, int]:
        """The acquired offsets of the next answer, with their deliveries."""
        limits = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        topics = [{"topic_id": self._topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}]
        asked = {
            **self._member,
            **limits,
            "share_session_epoch": self._epoch,
            "topics": topics if not self._epoch else [],
        }
        answer = _answer(self._leader, ApiKey.SHARE_FETCH, _FETCH, asked | {"forgotten_topics_data": []})
        assert answer["error_code"] == 0
        self._epoch += 1
        return {
            offset: run["delivery_count"]
            for topic in answer["responses"]
            for partition in topic["partitions"]
            for run in partition["acquired_records"]
            for offset in range(run["first_offset"], run["last_offset"] + 1)
        }

    def acknowledged(self, types: Mapping[int, int]) -> ErrorCode:
        """The answer to acknowledgements. types: by offset."""
        batches = [
            {"first_offset": offset, "last_offset": offset, "acknowledge_types": [each]}
            for offset, each in types.items()
        ]
        partitions = [{"partition_index": 0, "acknowledgement_batches": batches}]
        topics = [{"topic_id": self._topic_id, "partitions": partitions}]
        asked = {**self._member, "share_session_epoch": self._epoch, "topics": topics}
        answer = _answer(self._leader, ApiKey.SHARE_ACKNOWLEDGE, _ACKNOWLEDGE, asked)
        assert answer["error_code"] == 0
        self._epoch += 1
        (partition,) = answer["responses"][0]["partitions"]
        return ErrorCode(partition["error_code"])


def _answer(client: Client, api_key: ApiKey, version: int, request: Tree) -> Tree:
    answer = client.ask(api_key, version, request)
    assert answer is not None, f"{api_key.name}: the connection was closed"
    return answer


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    """All of them are closed at the end."""
    made: list[Client] = []
    yield made
    for each in made:
        each.close()


def test_accepted_and_released_records_that_are_not_stored_in_time(
    kafka: KafkaCluster, tmp_path: Path, clients: list[Client]
) -> None:
    """The member repeats its request until it is told that all of it is done: accepted records do not come again, and
    released ones do."""
    topic = f"repeated-{free_port()}"
    kafka.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    pool = {"share": {"auto_offset_reset": "earliest"}, "commit_timeout": "300ms"}
    mesh = Mesh([kafka], [topic], tmp_path, pool)
    try:
        member = Sharer(mesh, topic, topic, clients)
        eventually("it has all records", lambda: len(member.fetched()) == COUNT)
        kafka.freeze()
        try:
            assert member.acknowledged(EVEN_ACCEPTED) is ErrorCode.KAFKA_STORAGE_ERROR
        finally:
            kafka.thaw()
        answers: list[ErrorCode] = []

        def is_told() -> bool:
            answers.append(member.acknowledged(EVEN_ACCEPTED))
            return answers[-1] is not ErrorCode.KAFKA_STORAGE_ERROR

        eventually("it is told", is_told)
        assert answers[-1] is ErrorCode.NONE
        again: dict[int, int] = {}

        def has_released() -> bool:
            again.update(member.fetched())
            return len(again) == COUNT // 2

        eventually("released records come again", has_released)
        assert again == {offset: 2 for offset in range(COUNT) if offset % 2}
        assert member.acknowledged(dict.fromkeys(again, ACCEPT)) is ErrorCode.NONE
        assert kafka.committed(topic, topic) == {(topic, 0): COUNT}
    finally:
        mesh.kill()
