"""Two consumers join a group of a union at the same moment, without member ids: the broker gives each of them its own
(ConsumerGroupHeartbeat version 0, as of Java 3.7 to 3.9)."""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, read_tree, write_tree
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.router.union_mesh import UnionMesh
from tests.wire.entities import frame

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
PARTITIONS = 2
HEARTBEAT, LEAVE = ApiKey.CONSUMER_GROUP_HEARTBEAT, -1
_HEAD = Struct(">hhih")


class Consumer:
    """A consumer that sends heartbeats, and takes the partitions that it is assigned."""

    def __init__(self, address: str, group: str, *topics: str) -> None:
        self._connection = RawConnection(Endpoint.of(address))
        self._group, self._topics = group, list(topics)
        self.id, self._epoch = "", 0
        self.owned: list[Any] = []
        self.errors: list[int] = []

    def send_heartbeat(self) -> None:
        is_joining = not self.id
        request: Tree = {
            "group_id": self._group,
            "member_id": self.id,
            "member_epoch": self._epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout_ms": 30_000 if is_joining else -1,
            "subscribed_topic_names": self._topics if is_joining else None,
            "server_assignor": None,
            "topic_partitions": self.owned,
        }
        body = write_tree(HEARTBEAT, 0, Direction.REQUEST, request)
        self._connection.tell(frame(_HEAD.pack(HEARTBEAT, 0, 7, -1) + b"\0" + body))

    def receive_answer(self) -> None:
        answer = self._connection.answer()
        assert answer is not None
        heartbeat = read_tree(HEARTBEAT, 0, Direction.RESPONSE, answer[5:])
        if heartbeat["error_code"]:
            self.errors.append(heartbeat["error_code"])
            return
        self.id, self._epoch = heartbeat["member_id"], heartbeat["member_epoch"]
        if heartbeat["assignment"] is not None:
            self.owned = heartbeat["assignment"]["topic_partitions"]

    @property
    def partitions(self) -> set[tuple[Any, int]]:
        return {(each["topic_id"], partition) for each in self.owned for partition in each["partitions"]}

    def leave(self) -> None:
        self._epoch = LEAVE
        self.send_heartbeat()
        self.receive_answer()
        self._connection.close()


def test_two_that_join_at_once_share_the_partitions_of_both_clusters(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], union: UnionMesh
) -> None:
    topic = "without-ids"
    for cluster in kafka_pair:
        cluster.create_topic(topic, PARTITIONS)
        cluster.committed(topic)  # a broker creates its topic of offsets when a client looks for a coordinator
    before, *consumers = [Consumer(union.address_of("eu", 1), topic, topic, f"us.{topic}") for _ in range(3)]

    def has_joined() -> bool:
        before.send_heartbeat()
        before.receive_answer()
        return bool(before.id)

    eventually("the coordinators of the group are ready", has_joined, timeout=60, interval=0.5)
    before.leave()

    def beat() -> bool:
        for each in consumers:
            each.send_heartbeat()
        for each in consumers:
            each.receive_answer()
        assert not any(each.errors for each in consumers), [each.errors for each in consumers]
        first, second = (each.partitions for each in consumers)
        return len(first | second) == 2 * PARTITIONS and not first & second

    eventually("each has its part of both clusters", beat, timeout=60, interval=0.5)
    assert consumers[0].id != consumers[1].id
    for each in consumers:
        each.leave()
