"""The bench of an acceptance test: a topic on two clusters, its feeds, a mesh in front, members, and the account."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count as numbers
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tests.integration.consumer import ConsumerOptions
from tests.integration.feeding import Feed, log_ends, upstream_records
from tests.integration.kafka import KafkaCluster
from tests.integration.members import ConfluentMember, JavaMember, KcatMember, Member
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually, free_ports
from tests.integration.records import Account, Delivery, Stored, account
from tests.integration.relay import Relay

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
"""`kafka-consumer-groups`."""

AnyMember = TypeVar("AnyMember", bound=Member)


class Bench:
    """One topic on every cluster and one group, both named after the test. `end` stops all that it started."""

    def __init__(self, clusters: Sequence[KafkaCluster], topic: str, folder: Path) -> None:
        self.clusters = clusters
        self.topic = topic
        self.group = f"{topic}-group"
        self.members: list[Member] = []
        self._folder = folder
        self._meshes: list[Mesh] = []
        self._feeds = [Feed(cluster, topic) for cluster in clusters]

    def compress_with(self, *codecs: str) -> None:
        """Sets the codecs of later feeds, instead of all five."""
        self.feed_as(codecs=codecs)

    def feed_as(self, **options: Any) -> None:
        """Sets options of later feeds."""
        assert not any(feed.ids() for feed in self._feeds)
        self._feeds = [Feed(cluster, self.topic, **options) for cluster in self.clusters]

    def create_topics(self, partitions: int = 3) -> None:
        """Creates the topic on every cluster."""
        for cluster in self.clusters:
            cluster.create_topic(self.topic, partitions)

    def start_mesh(
        self,
        relay: Relay | None = None,
        *,
        upstream: Mapping[str, Mapping[str, object]] | None = None,
        name: str = "mesh",
        process: Mapping[str, object] = MappingProxyType({"process_id": "mesh-1"}),
        further_nodes: int = 0,
        **pool: object,
    ) -> Mesh:
        """Starts a mesh in front of the clusters; relay: stands in front of it for clients; upstream: further keys of
        clusters; process: of the file; further_nodes: so many nodes lead partitions beside the first; pool: further
        keys of its target."""
        ports = free_ports(further_nodes) if further_nodes else []
        listener = {"nodes": {"ports": f"{ports[0]}-{ports[-1]}"}} if ports else {}
        self._meshes.append(
            Mesh(self.clusters, [self.topic], self._folder, pool, upstream, name, relay, listener, process)
        )
        return self.mesh

    @property
    def mesh(self) -> Mesh:
        """The mesh that started last."""
        return self._meshes[-1]

    def feed(self, count: int, rate: float | None = None, clusters: Sequence[KafkaCluster] | None = None) -> None:
        """Stores `count` records, an equal part on each of `clusters` (by default all), `rate` a second."""
        with self.feeding(count, rate, clusters):
            pass

    @contextmanager
    def feeding(
        self, count: int, rate: float | None = None, clusters: Sequence[KafkaCluster] | None = None
    ) -> Iterator[None]:
        """`feed` at the same time as the body; the end waits for it."""
        feeds = [feed for feed in self._feeds if feed.cluster in (clusters or self.clusters)]
        with ThreadPoolExecutor(len(feeds)) as threads:
            jobs = [threads.submit(feed.produce, count // len(feeds), rate and rate / len(feeds)) for feed in feeds]
            yield
            for job in jobs:
                job.result()

    @contextmanager
    def feeding_throughout(self, rate: float) -> Iterator[None]:
        """Feeds `rate` records a second, an equal part on each cluster, until the body ends."""
        is_over = threading.Event()
        with ThreadPoolExecutor(len(self._feeds)) as threads:
            jobs = [
                threads.submit(
                    feed.produce_while, takewhile(lambda _: not is_over.is_set(), numbers()), rate / len(self._feeds)
                )
                for feed in self._feeds
            ]
            try:
                yield
            finally:
                is_over.set()
            for job in jobs:
                job.result()

    def confluent(self, name: str, through: KafkaCluster | None = None, **options: Any) -> ConfluentMember:
        """Starts a confluent-kafka consumer on the mesh, or directly on a cluster; options: of ConsumerOptions, with a
        `topic` for another one than the bench's, or a regular expression."""
        topic = options.pop("topic", self.topic)
        properties = {"client.id": name, **options.pop("properties", {})}
        address = (through or self.mesh).bootstrap_servers
        chosen = ConsumerOptions(address, self.group, topic, properties=properties, **options)
        return self._joined(ConfluentMember(name, chosen, self._folder))

    def java(self, name: str) -> JavaMember:
        """Starts a VerifiableConsumer on the mesh."""
        kafka, address = self.clusters[0], self.mesh.bootstrap_servers
        return self._joined(JavaMember(name, kafka, address, self.group, self.topic, self._folder))

    def kcat(self, name: str, *arguments: str) -> KcatMember:
        """Starts `kcat -G` on the mesh, or kcat with these arguments after the address."""
        address = self.mesh.bootstrap_servers
        if arguments:
            return self._joined(KcatMember(name, ["-b", address, *arguments], self._folder))
        return self._joined(KcatMember.subscribed(name, address, self.group, self.topic, self._folder))

    def close_members(self) -> None:
        """Sends SIGTERM to all remaining members, and waits."""
        for member in self.members:
            if member.process.exit_code is None:
                member.close()

    def stored(self, may_repeat: bool = False) -> dict[str, Stored]:
        """All records stored on all clusters, read without the mesh; exactly the fed ones, or AssertionError."""
        stored: dict[str, Stored] = {}
        for feed in self._feeds:
            here = upstream_records(feed.cluster, self.topic, may_repeat=may_repeat)
            assert here.keys() == feed.ids(), f"fed, not stored: {sorted(feed.ids() - here.keys())[:10]}"
            stored |= here
        return stored

    def deliveries(self, members: Iterable[Member] | None = None) -> list[Delivery]:
        """The deliveries to these members (by default all) so far."""
        return [delivery for member in members or self.members for delivery in member.deliveries]

    def account_when_all_arrived(
        self, timeout: float = 60.0, members: Sequence[Member] | None = None, may_repeat: bool = False
    ) -> Account:
        """The account of these members (by default all) as soon as no record is missing, or when no new one has come
        for `timeout` seconds: a limit for the whole would depend on the machine."""
        stored = self.stored(may_repeat)
        arrived, seen_at = -1, 0.0

        def is_over() -> bool:
            nonlocal arrived, seen_at
            missing = stored.keys() - {delivery.id for delivery in self.deliveries(members)}
            now = time.monotonic()
            if len(stored) - len(missing) != arrived:
                arrived, seen_at = len(stored) - len(missing), now
            return not missing or now - seen_at > timeout

        eventually("every record arrived", is_over, timeout=math.inf, interval=0.25)
        return account(stored, self.deliveries(members))  # which says what is missing

    def until_all_committed(self, group: str | None = None, timeout: float = 60.0) -> None:
        """Returns when the upstream groups have committed the last record of every partition, or offsets without
        records behind it. The bench's group unless one is named."""
        last: dict[tuple[str, int], int] = {}
        for each in self.stored().values():
            place = (each.cluster, each.partition)
            last[place] = max(last.get(place, 0), each.offset)
        ends = {
            (cluster.name, partition): end
            for cluster in self.clusters
            for partition, end in log_ends(cluster, self.topic).items()
        }

        def committed() -> bool:
            found = {
                (cluster.name, partition): offset
                for cluster in self.clusters
                for (_, partition), offset in cluster.committed(group or self.group).items()
            }
            return all(last[place] < found.get(place, 0) <= ends[place] for place in last)

        eventually(f"{group or self.group} has no lag", committed, timeout=timeout, interval=0.2)

    def end(self) -> None:
        """Kills all remaining processes."""
        for member in self.members:
            member.kill()
        for mesh in self._meshes:
            mesh.kill()

    def _joined(self, member: AnyMember) -> AnyMember:
        self.members.append(member)
        return member


def until_without_lag(cluster: KafkaCluster, group: str, partitions: int = 3) -> None:
    """Returns when `kafka-consumer-groups` says that the group has read and committed everything."""
    settled = dict.fromkeys(range(partitions), "0")
    eventually(f"no lag on {cluster.name}", lambda: lag(cluster, group) == settled, interval=1)


def until_left(cluster: KafkaCluster, group: str) -> None:
    """Returns when the group has no members."""
    until_members(cluster, group, 0)


def until_members(cluster: KafkaCluster, group: str, count: int) -> None:
    """Returns when the group has this many members."""
    eventually(f"{group} on {cluster.name} has {count} members", lambda: cluster.group_members(group) == count)


def lag(cluster: KafkaCluster, group: str) -> dict[int, str]:
    """The lag per partition as `kafka-consumer-groups --describe` prints it."""
    text = cluster.run_tool(
        CONSUMER_GROUPS, "--bootstrap-server", cluster.bootstrap_servers, "--describe", "--group", group
    )
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines:
        return {}
    partition, lag_column = lines[0].index("PARTITION"), lines[0].index("LAG")
    return {int(columns[partition]): columns[lag_column] for columns in lines[1:]}
