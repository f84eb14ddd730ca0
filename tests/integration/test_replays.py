"""`kafka-mesh replay`, as an operator uses it on real brokers while members go on."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import KAFKA_MESH, Mesh
from tests.integration.processes import START, completed, eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
COUNT = 600


class Member:
    """A consumer in a thread that commits all records that it has processed."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        self.values: list[str] = []
        self.is_assigned = threading.Event()
        self._is_over = threading.Event()
        properties = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, **properties})
        self._consumer.subscribe([topic], on_assign=lambda *_: self.is_assigned.set())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            messages = [each for each in self._consumer.consume(200, 0.2) if each.error() is None]
            self.values += [(each.value() or b"").decode() for each in messages]
            if messages:
                try:
                    self._consumer.commit(asynchronous=False)
                except KafkaException:
                    continue  # the mesh is away
        self._consumer.close()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(60)


class Replaying:
    """A mesh over two clusters whose groups have processed `COUNT` records, half of them on each."""

    def __init__(self, folder: Path, clusters: tuple[KafkaCluster, KafkaCluster]) -> None:
        self.clusters = clusters
        self.topic, self.group = f"replayed-{uuid4().hex[:8]}", f"group-{uuid4().hex[:8]}"
        self.sent = 0
        for cluster in clusters:
            cluster.create_topic(self.topic, 2)
        self.mesh = Mesh(clusters, [self.topic], folder, {"start": "earliest"})
        self.members: list[Member] = []

    def member(self, group: str | None = None) -> Member:
        member = Member(self.mesh.bootstrap_servers, group or self.group, self.topic)
        self.members.append(member)
        eventually("it is a member", member.is_assigned.is_set, timeout=START)
        return member

    def produce(self, count: int) -> list[str]:
        values = [str(number) for number in range(self.sent, self.sent + count)]
        self.sent += count
        for cluster in self.clusters:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "compression.type": "lz4"})
            for value in values[self.clusters.index(cluster) :: 2]:
                kind = "red" if int(value) % 10 < 2 else "blue"
                producer.produce(self.topic, value, key=f"k{int(value) % 3}", headers={"kind": kind})
            assert producer.flush(30) == 0
        return values

    def run(self, *words: str, code: int = 0) -> str:
        done = completed([KAFKA_MESH, "replay", *words, self.mesh.file])
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    def counts(self) -> Counter[str]:
        return Counter(value for member in self.members for value in member.values)

    def until_processed(self, values: list[str]) -> None:
        """Waits until these are processed, and committed upstream."""

        def is_done() -> bool:
            stored = [cluster.committed(self.group) for cluster in self.clusters]
            ends = sum(sum(each.values()) for each in stored)
            return set(values) <= self.counts().keys() and ends == self.sent

        eventually("members have processed all", is_done, timeout=START)

    def until_over(self) -> None:
        eventually("the replay is over", lambda: not self.going_on(), timeout=START, interval=0.2)

    def going_on(self) -> list[str]:
        """The ids of the running replays of the mesh."""
        with urllib.request.urlopen(f"{self.mesh.admin_url}/replays", timeout=5) as response:
            return [each["replay"] for each in json.load(response)["replays"]]


@pytest.fixture
def replaying(tmp_path: Path, kafka_pair: tuple[KafkaCluster, KafkaCluster]) -> Iterator[Replaying]:
    replaying = Replaying(tmp_path, kafka_pair)
    yield replaying
    for member in replaying.members:
        member.close()
    replaying.mesh.kill()


def test_a_group_that_goes_on_is_given_records_again(replaying: Replaying) -> None:
    replaying.member()
    replaying.member()
    before = datetime.now(UTC).isoformat()
    old = replaying.produce(COUNT)
    replaying.until_processed(old)
    middle = datetime.now(UTC).isoformat()
    time.sleep(0.01)  # a record of the same millisecond would belong to the span
    once = replaying.counts()
    assert set(once.values()) == {1}

    later = replaying.produce(100)
    replaying.until_processed(later)
    span = ("--group", replaying.group, "--from", before, "--to", middle)
    assert replaying.run(*span, "--dry-run").startswith(f"dry run: would deliver {COUNT} offsets again")
    assert replaying.counts() == Counter([*old, *later])

    said = json.loads(replaying.run(*span, "--json"))
    assert (said["offsets"], said["elsewhere"]) == (COUNT, [])
    new = replaying.produce(50)
    replaying.until_over()
    replaying.until_processed(new)
    assert replaying.counts() == Counter([*old, *old, *later, *new])

    red = [value for value in old if int(value) % 10 < 2 and int(value) % 3 == 1]
    replaying.run(*span, "--header", "kind=red", "--key", "k1")
    replaying.until_over()
    assert replaying.counts() == Counter([*old, *old, *later, *new, *red])

    other = replaying.member("other-" + replaying.group)
    eventually("the other group has it all", lambda: len(other.values) == replaying.sent, timeout=START)
    mine = {id(member): len(member.values) for member in replaying.members[:2]}
    to_other = ("--to-group", "other-" + replaying.group)
    replaying.run("--group", replaying.group, "--from", "1h", *to_other, "--key", "k2")
    replaying.until_over()
    assert Counter(other.values) == Counter(
        str(number) for number in range(replaying.sent) for _ in range(2 if number % 3 == 2 else 1)
    )
    assert {id(member): len(member.values) for member in replaying.members[:2]} == mine

    of = ("--group", replaying.group)
    assert "--from: 'yesterday', not a time like" in replaying.run(*of, "--from", "yesterday", code=2)
    assert "--rate: '0', not records a second from 1" in replaying.run(*of, "--from", "1h", "--rate", "0", code=2)
    assert "--topic: 'other', not one that" in replaying.run(*of, "--from", "1h", "--topic", "other", code=2)
    assert "no record of that was acknowledged" in replaying.run(
        *of, "--partition", f"eu/{replaying.topic}-0@900-999", code=1
    )
    assert "'gone': no unfinished replay" in replaying.run("cancel", *of, "--replay", "gone", code=1)


def test_it_survives_a_kill_of_the_mesh_keeps_its_rate_and_is_cancelled(replaying: Replaying) -> None:
    replaying.member()
    old = replaying.produce(COUNT)
    replaying.until_processed(old)
    id = json.loads(replaying.run("--group", replaying.group, "--from", "1h", "--rate", "60", "--json"))["replay"]

    def again() -> int:
        return replaying.counts().total() - COUNT

    eventually("some came again", lambda: again() > 60, timeout=START)
    assert again() < COUNT
    assert f"{id} of group {replaying.group}" in replaying.run("status", "--replay", id)
    replaying.mesh.kill()
    replaying.mesh.restart()
    eventually("it goes on", lambda: replaying.going_on() == [id], timeout=START, interval=0.2)
    assert id in replaying.run("list")
    seen = again()
    eventually("more came again", lambda: again() > seen + 30, timeout=START)

    assert f"replay {id} is cancelled" in replaying.run("cancel", "--replay", id, "--group", replaying.group)
    replaying.until_over()
    stopped = again()
    assert stopped < COUNT
    last = replaying.produce(20)
    replaying.until_processed(last)
    assert again() == stopped + 20

    replaying.run("--group", replaying.group, "--from", "1h", "--rate", "200")
    replaying.mesh.kill()
    replaying.mesh.restart()
    eventually("each came again", lambda: min(replaying.counts()[value] for value in old) >= 2, timeout=START)
    replaying.until_over()
