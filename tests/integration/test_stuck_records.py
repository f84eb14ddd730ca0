"""`kafka-mesh look`, `settle`, `bury` and `release`, as an operator uses them on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import KAFKA_MESH, MeshProcess
from tests.integration.processes import START, completed, eventually, free_port

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]


class Operated:
    """A mesh whose member `holder` holds three records of orders and commits nothing; `waiting` wants more."""

    def __init__(self, folder: Path, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        port, coordinator = free_port(), free_port()
        pool = {
            "topics": [{"name": "orders", "from": [{"cluster": "eu", "topic": "orders"}]}],
            "groups": ["*"],
            "start": "earliest",
            "dead_letters": {"topic": "orders.dead", "create": True, "limit": 5},
        }
        configuration: Mapping[str, object] = {
            "admin": {"look": {"hide_headers": ["password"], "mask_paths": ["card.number"]}},
            "clusters": [{"name": "eu", "bootstrap_servers": cluster.bootstrap_servers}],
            "virtual_clusters": [
                {
                    "name": "shop",
                    "listen": f"127.0.0.1:{port}",
                    "coordinator": f"127.0.0.1:{coordinator}",
                    "target": {"pool": pool},
                }
            ],
        }
        self.mesh = MeshProcess(folder, "stuck", configuration)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.consumers: list[Consumer] = []

    def consumer(self, name: str) -> Consumer:
        properties = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "client.id": name, "log_level": 0}
        made = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "billing", **properties})
        self.consumers.append(made)
        made.subscribe(["orders"])
        return made

    def run(self, command: str, *options: str, code: int = 0) -> str:
        done = completed([KAFKA_MESH, command, self.mesh.file, "--group", "billing", *options])
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    def committed(self) -> int | None:
        return self.cluster.committed("billing").get(("orders", 0))


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    cluster = KafkaCluster("eu", kafka_jars(), tmp_path / "kafka")
    operated = None
    try:
        cluster.create_topic("orders", 1)
        operated = Operated(tmp_path, cluster)
        yield operated
    finally:
        for each in operated.consumers if operated is not None else ():
            each.close()
        if operated is not None:
            operated.mesh.kill()
        cluster.kill()


def test_a_stuck_group_is_freed(operated: Operated) -> None:
    holder = operated.consumer("holder")
    producer = Producer({"bootstrap.servers": operated.cluster.bootstrap_servers, "compression.type": "zstd"})
    value = json.dumps({"order": 1, "card": {"number": "4111"}})
    producer.produce("orders", value, key="first", partition=0, headers={"password": "secret", "trace": "t-1"})
    for number in range(1, 4):
        producer.produce("orders", f"record {number}", partition=0)
    assert producer.flush(30) == 0
    eventually("the member holds the records", lambda: holder.poll(1.0), timeout=START)
    waiting = operated.consumer("waiting")
    eventually("the other member asks", lambda: waiting.poll(0.1) or waiting.assignment(), timeout=START)

    said = operated.run("look")
    assert said.startswith("eu/orders-0@0 of group billing\n  0: held by ")
    assert "key: first" in said
    assert "header password: hidden" in said
    assert "header trace: t-1" in said
    assert '"number": "****"' in said
    assert "4111" not in said
    assert "not shown" not in operated.run("look", "--oldest", "--as", "hex")
    (member,) = {place["member"] for place in json.loads(operated.run("look", "--json"))["places"]}
    assert "@0 of group billing" in operated.run("look", "--member", member)
    assert "not JSON, 8 bytes" not in operated.run("look", "--partition", "eu/orders-0@1")
    assert "hidden (not JSON, and mask_paths is set)" in operated.run("look", "--partition", "eu/orders-0@1")

    assert operated.run("settle", "--partition", "eu/orders-0@0", "--dry-run").startswith(
        "dry run: would settle 1 record"
    )
    assert operated.committed() in {None, 0}
    assert operated.run("settle", "--partition", "eu/orders-0@0").startswith("settle: 1 record of eu/orders-0")
    eventually("the commit upstream has moved on", lambda: operated.committed() == 1, timeout=START)
    message = eventually("the other member has the next record", lambda: waiting.poll(1.0), timeout=START)
    assert message.value() == b"record 1"

    assert operated.run("bury", "--partition", "eu/orders-0@1").startswith("bury: 1 record")
    eventually("its dead letter is written and it is settled", lambda: operated.committed() == 2, timeout=START)
    reader = Consumer({"bootstrap.servers": operated.cluster.bootstrap_servers, "group.id": "reader"})
    reader.assign([TopicPartition("orders.dead", 0, 0)])
    letter = eventually("the dead letter is there", lambda: reader.poll(1.0), timeout=START)
    reader.close()
    assert letter.value() == b"record 1"
    assert ("kafka-mesh.member", b"an operator") in (letter.headers() or [])

    holding = json.loads(operated.run("look", "--partition", "eu/orders-0@2", "--json"))["places"][0]["member"]
    assert operated.run("release", "--partition", "eu/orders-0@2-3").startswith("release: 2 records")
    taken = json.loads(operated.run("look", "--partition", "eu/orders-0@2", "--json"))["places"][0]["member"]
    assert taken != holding
    told = {each["event"] for each in operated.mesh.log_entries()}
    assert {"record shown to an operator", "records settled by an operator", "records buried by an operator"} <= told


def test_what_cannot_be_done_is_said(operated: Operated) -> None:
    assert operated.run("look", code=1) == "kafka-mesh: group: 'billing' has no pool in this process\n"
    consumer = operated.consumer("only")
    eventually("it is a member", lambda: consumer.poll(0.1) or consumer.assignment(), timeout=START)
    assert operated.run("look", code=1) == "kafka-mesh: no member holds a record\n"
    wrong = operated.run("settle", "--partition", "orders@1", code=2)
    assert (
        wrong
        == "kafka-mesh: --partition: orders@1: CLUSTER/TOPIC-NUMBER@OFFSET or @FIRST-LAST, as in eu/orders-3@4711\n"
    )
    unread = ("settle", "--partition", "eu/orders-0@7")
    eventually(
        "the partition is assigned", lambda: "has not been read yet" in operated.run(*unread, code=1), timeout=START
    )
    assert "eu/other-0 is not assigned to this process" in operated.run("bury", "--partition", "eu/other-0@7", code=1)
