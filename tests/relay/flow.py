"""A producer and a member that consumes its records, both through the mesh, while a process dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.clients.bench import Client, ScriptedMember, command_of, producer_of
from tests.clients.producing import Feed
from tests.clients.script import Protocol, Script
from tests.integration.feeding import stored_upstream
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import ChildProcess, eventually
from tests.integration.records import Stored, account


class Flow:
    """A producer, a member, and the stored records. address: of the mesh. topic: its name at the cluster. name: its
    name for clients. count: of records; rate: records a second."""

    def __init__(
        self,
        cluster: KafkaCluster,
        address: str,
        client: Client,
        topic: str,
        folder: Path,
        *,
        count: int,
        rate: int,
        name: str = "",
        partitions: int = 3,
        places: Sequence[Sequence[int]] | None = None,
        protocol: Protocol = "classic",
        producer: Client | None = None,
    ) -> None:
        """Creates the topic, and starts both. places: the nodes of each partition. protocol: of the group. producer:
        another client than the member's."""
        folder.mkdir(exist_ok=True)
        self._cluster, self._topic, self._count, self._rate = cluster, topic, count, rate
        if places is None:
            cluster.create_topic(topic, partitions)
        else:
            cluster.create_topic(topic, len(places), places=places)
        name = name or topic
        script = Script(
            bootstrap_servers=address,
            client_id="member",
            group=f"{name}-group",
            topic=name,
            commit="sync",
            protocol=protocol,
        )
        self.member = ScriptedMember("member", [*command_of(client), script.to_json()], folder)
        self.member.until_assigned()
        feed = Feed(bootstrap_servers=address, client_id="producer", topic=name, count=count, rate=rate)
        self._output = folder / "producer.out"
        command = [*producer_of(producer or client), feed.to_json()]
        self._producer = ChildProcess(command, log=folder / "producer.log", stdout=self._output)

    def until_acknowledged(self, part: float) -> None:
        """Returns when this many records are acknowledged."""
        eventually(f"{part:.0%} are acknowledged", lambda: self._acknowledged() >= part * self._count, timeout=120)

    def acknowledged_more(self) -> None:
        """Returns when more records are acknowledged than now, or all."""
        enough = min(self._acknowledged() + self._rate / 2, self._count)
        eventually("it goes on", lambda: self._acknowledged() >= enough, timeout=60)

    def is_whole(self, cluster: KafkaCluster | None = None) -> dict[str, Stored]:
        """Checks that all records are stored once, in the order of each key, and were consumed at the cluster's
        offsets. Returns the stored records. cluster: the one that has the topic now, if it is not the first one."""
        count, code = self._count, self._producer.wait(180)
        assert code == 0, f"the producer ended with {code}; its log ends:\n{self._producer.log_tail()}"
        assert self._acknowledged() == count
        stored = self._stored(cluster or self._cluster)
        by_id = {each.record.id: each for each in stored}
        twice = sorted(id for id, times in Counter(each.record.id for each in stored).items() if times > 1)
        lost = sorted({f"producer-{number}" for number in range(count)} - by_id.keys())
        assert not (twice or lost), f"stored twice: {len(twice)} {twice[:10]}; lost: {len(lost)} {lost[:10]}"
        assert len(stored) == count
        in_order = sorted(stored, key=lambda each: (each.record.key or b"", each.partition, each.offset))
        numbers = [(each.record.key, int(each.record.id.rpartition("-")[2])) for each in in_order]
        assert numbers == sorted(numbers, key=lambda each: (each[0] or b"", each[1])), "the order of each key"
        eventually("all is consumed", lambda: len({each.id for each in self.member.deliveries}) >= count, timeout=90)
        account(by_id, self.member.deliveries).assert_nothing_lost_or_altered()
        for each in self.member.deliveries:
            assert (each.partition, each.offset) == (by_id[each.id].partition, by_id[each.id].offset)
        self.member.assert_running()
        return by_id

    def _stored(self, cluster: KafkaCluster) -> list[Stored]:
        """A leader that was elected a moment ago shows consumers less than was acknowledged, until its followers have
        fetched."""
        stored: list[Stored] = []

        def is_shown() -> bool:
            stored[:] = stored_upstream(cluster, self._topic)
            return len(stored) >= self._count

        with suppress(AssertionError):  # the caller names what is lost
            eventually("all that was acknowledged is shown", is_shown, timeout=20, interval=0.5)
        return stored

    def end(self) -> None:
        self._producer.kill()
        self.member.kill()

    def _acknowledged(self) -> int:
        return self._output.read_bytes().count(b"\n")
