"""A producer, and a member that consumes what it produces, both through the mesh, while something dies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.clients.bench import Client, ScriptedMember, command_of, producer_of
from tests.clients.producing import Feed
from tests.clients.script import Script
from tests.integration.feeding import stored_upstream
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import ChildProcess, eventually
from tests.integration.records import Stored, account


class Flow:
    """Both of them, and what is stored. address: of the mesh. topic: as the cluster calls it. name: as clients do.
    count: of records; rate: of them a second."""

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
    ) -> None:
        """Makes the topic, and starts both. places: the nodes of each partition."""
        folder.mkdir(exist_ok=True)
        self._cluster, self._topic, self._count, self._rate = cluster, topic, count, rate
        if places is None:
            cluster.create_topic(topic, partitions)
        else:
            cluster.create_topic(topic, len(places), places=places)
        name = name or topic
        script = Script(bootstrap_servers=address, client_id="member", group=f"{name}-group", topic=name, commit="sync")
        self.member = ScriptedMember("member", [*command_of(client), script.to_json()], folder)
        self.member.until_assigned()
        feed = Feed(bootstrap_servers=address, client_id="producer", topic=name, count=count, rate=rate)
        self._output = folder / "producer.out"
        command = [*producer_of(client), feed.to_json()]
        self._producer = ChildProcess(command, log=folder / "producer.log", stdout=self._output)

    def until_acknowledged(self, part: float) -> None:
        """Returns when so much of all is."""
        eventually(f"{part:.0%} are acknowledged", lambda: self._acknowledged() >= part * self._count, timeout=120)

    def acknowledged_more(self) -> None:
        """Returns when more is than now, or all."""
        enough = min(self._acknowledged() + self._rate / 2, self._count)
        eventually("it goes on", lambda: self._acknowledged() >= enough, timeout=60)

    def is_whole(self) -> dict[str, Stored]:
        """All is stored once, in the order of each key, and was consumed at the cluster's offsets. Returns what is
        stored."""
        count, code = self._count, self._producer.wait(180)
        assert code == 0, f"the producer ended with {code}; its log ends:\n{self._producer.log_tail()}"
        assert self._acknowledged() == count
        stored = list(stored_upstream(self._cluster, self._topic))
        by_id = {each.record.id: each for each in stored}
        assert (len(stored), len(by_id)) == (count, count), "nothing is lost, nothing is stored twice"
        in_order = sorted(stored, key=lambda each: (each.record.key or b"", each.partition, each.offset))
        numbers = [(each.record.key, int(each.record.id.rpartition("-")[2])) for each in in_order]
        assert numbers == sorted(numbers, key=lambda each: (each[0] or b"", each[1])), "the order of each key"
        eventually("all is consumed", lambda: len({each.id for each in self.member.deliveries}) >= count, timeout=90)
        account(by_id, self.member.deliveries).assert_nothing_lost_or_altered()
        for each in self.member.deliveries:
            assert (each.partition, each.offset) == (by_id[each.id].partition, by_id[each.id].offset)
        self.member.assert_running()
        return by_id

    def end(self) -> None:
        self._producer.kill()
        self.member.kill()

    def _acknowledged(self) -> int:
        return self._output.read_bytes().count(b"\n")
