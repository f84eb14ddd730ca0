"""The actors of a chaos run: clusters behind relays, mesh processes of one pool behind relays, members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.feeds import POISON, Feeding, Plain, Transactions, compacted_record
from tests.chaos.journals import ChaosMember
from tests.chaos.plan import Kind, Setup
from tests.clients.script import Script
from tests.integration.further_broker import FurtherBroker
from tests.integration.jars import kafka_jars
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import free_port
from tests.integration.records import varied_record
from tests.integration.relay import Relay

TOPIC = "orders"
GROUP = "billing"
DEAD = "orders.dead"
MAXIMUM_MEMBERS = 8
MINIMUM_MEMBERS = 3


@dataclass(slots=True, eq=False)
class ClusterActor:
    """is_busy: a fault is acting on it. address: of the relay. second: its other broker, if it has one. feedings:
    threads that feed it from those sources."""

    cluster: KafkaCluster
    relay: Relay
    address: str
    second: FurtherBroker | None = None
    is_busy: bool = False
    sources: list[Plain | Transactions] = field(default_factory=list)
    feedings: list[Feeding] = field(default_factory=list)

    @classmethod
    def start(cls, name: str, folder: Path, setup: Setup) -> ClusterActor:
        """One or two brokers that clients of their other listener reach only through a relay."""
        relay, behind = Relay(), f"127.0.0.1:{free_port()}"
        address = relay.stand_in_for(behind)
        listeners = f"PLAINTEXT://127.0.0.1:{{port}},RELAYED://{behind},CONTROLLER://127.0.0.1:{{controller}}"
        properties = {
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},RELAYED://{address}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT",
            "log.cleaner.backoff.ms": "1000",
            "broker.session.timeout.ms": "6000",  # so that a busy machine does not fence it
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        }
        actor = cls(KafkaCluster(name, kafka_jars(), folder / name, properties), relay, address)
        if setup.has_second_brokers:
            actor._start_second()
        if setup.poison:
            actor.cluster.create_topic(DEAD, 1)
        return actor

    def create_topic(self, setup: Setup, partitions: int) -> None:
        """With two brokers, each leads some of the partitions."""
        compacted = {
            "cleanup.policy": "compact",
            "segment.ms": "2000",
            "min.cleanable.dirty.ratio": "0.01",
        }
        nodes = (1, 2) if self.second else (1,)
        self.cluster.create_topic(
            TOPIC,
            partitions,
            compacted if setup.is_compacted else None,
            places=[[nodes[number % len(nodes)]] for number in range(partitions)],
        )

    def feed(self, setup: Setup, seed: int) -> None:
        """Feeds it until its feedings are stopped."""
        shape = compacted_record if setup.is_compacted else varied_record
        self.sources.append(Plain(self.cluster, TOPIC, setup.rate // 2, shape))
        self.feedings.append(Feeding(self.sources[-1].produce))
        if setup.has_transactions:
            self.sources.append(Transactions(self.cluster, TOPIC, seed, shape))
            self.feedings.append(Feeding(self.sources[-1].produce, pause=0.2))

    def partitions_without_leader(self) -> int:
        """Partitions without a leader, from the first broker."""
        admin = self.cluster.admin()
        partitions = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
        return sum(partition.leader < 0 for partition in partitions.values())

    def _start_second(self) -> None:
        """The first broker is the only one yet, so it has the coordinators' topics."""
        self.cluster.committed(GROUP)
        Transactions(self.cluster, TOPIC, 0).finish()
        behind = f"127.0.0.1:{free_port()}"
        self.second = FurtherBroker(self.cluster, {"RELAYED": behind}, {"RELAYED": self.relay.stand_in_for(behind)})
        self.cluster.bootstrap_servers += f",{self.second.address}"
        self.second.wait_until_up()

    def end(self) -> None:
        self.cluster.kill()
        if self.second:
            self.second.kill()
        self.relay.close()


@dataclass(slots=True, eq=False)
class MeshActor:
    """is_reachable: it runs, and does not hang."""

    mesh: Mesh
    relay: Relay
    name: str
    is_busy: bool = False
    is_reachable: bool = True

    @classmethod
    def start(cls, number: int, clusters: Sequence[ClusterActor], setup: Setup, folder: Path) -> MeshActor:
        name = f"mesh-{number}"
        relay = Relay()
        pool: dict[str, object] = {
            "fast_expiry": "1s",
            "lock_timeout": "8s",
            "budgets": {"replay": setup.replay},
            "share": {"auto_offset_reset": "pool", "delivery_count_limit": 10},
        }
        if setup.poison:
            pool["dead_letters"] = {"topic": DEAD, "limit": 5}
        upstream = {each.cluster.name: {"bootstrap_servers": each.address} for each in clusters}
        process = {"process_id": name} if setup.is_named else {}
        kafka = [each.cluster for each in clusters]
        mesh = Mesh(kafka, [TOPIC], folder, pool, upstream, name, relay, process=process)
        return cls(mesh, relay, name)

    def in_flight(self) -> Counter[str]:
        """Records sent to members and not committed, by client.id; empty if it cannot tell."""
        found: Counter[str] = Counter()
        with suppress(OSError):
            for labels, value in self.mesh.samples("kafka_mesh_in_flight_records") if self.is_reachable else ():
                if value:
                    found[labels["client_id"]] += int(value)
        return found

    def pools(self) -> list[dict[str, Any]]:
        """The pools in its status."""
        return [pool for virtual in self.mesh.status()["virtual_clusters"] for pool in virtual["pools"]]

    def uses(self, cluster: str) -> bool:
        """True if its status shows a cluster as usable; acknowledgements there are not stored before."""
        with suppress(OSError):
            return any(
                value and labels["cluster"] == cluster for labels, value in self.mesh.samples("kafka_mesh_upstream_up")
            )
        return False

    def end(self) -> None:
        self.mesh.kill()
        self.relay.close()


@dataclass(slots=True, eq=False)
class Members:
    """The running members, and all that ever ran."""

    folder: Path
    setup: Setup
    meshes: Sequence[MeshActor]
    running: list[ChaosMember] = field(default_factory=list)
    all: list[ChaosMember] = field(default_factory=list)
    busy: set[ChaosMember] = field(default_factory=set)
    _homes: dict[ChaosMember, int] = field(default_factory=dict)
    """The mesh of each member that has a fixed one."""

    def start(self, kind: Kind) -> ChaosMember:
        number = len(self.all)
        addresses = [each.mesh.bootstrap_servers for each in self.meshes]
        chosen = addresses if self.setup.knows_all else [addresses[number % len(addresses)]]
        name = f"member-{number}-{kind.name.lower().replace('_', '-')}"
        script = Script(
            bootstrap_servers=",".join(chosen),
            client_id=name,
            group=GROUP,
            topic=TOPIC,
            commit="auto" if kind.commits_by_itself else "positions",
            commit_interval=300,
            protocol="consumer" if kind.is_of_the_consumer_protocol else "classic",
            session_timeout=6_000,
            dies_of="" if kind is Kind.KCAT or not self.setup.poison else POISON,
            seconds_per_record=self.setup.seconds_per_record,
        )
        member = ChaosMember(name, kind, script, self.folder)
        self.all.append(member)
        self.running.append(member)
        if not self.setup.knows_all:
            self._homes[member] = number % len(addresses)
        return member

    def may_be_alone(self, member: ChaosMember) -> bool:
        """True if its mesh may have no other healthy member."""
        home = self._homes.get(member)
        others = (each for each in self.running if each is not member and each not in self.busy and not each.is_gone)
        return home is None or all(self._homes[each] != home for each in others)

    def count(self) -> int:
        """Records that all members have journaled; reads the journals' new parts."""
        return sum(member.count() for member in self.all)

    def end(self) -> None:
        for member in self.all:
            member.process.kill()
