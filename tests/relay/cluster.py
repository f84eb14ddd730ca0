"""A cluster of several brokers with ids far apart. Each of them can die, hang and come back alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from tests.integration.further_broker import FurtherBroker
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.relay.requests import NAMES, read, request

NODES = (1, 101, 1_000_000)
"""The first one is the controller, too."""

_API_VERSIONS, _METADATA, _ELECT_LEADERS, _REASSIGN = (18, 0), (3, 12), (43, 2), (45, 0)
_PREFERRED = 0


class Node(Protocol):
    """One broker of a cluster."""

    def kill(self) -> None:
        """kill -9."""

    def stop(self) -> None:
        """Stops it; it hands over its leaderships first."""

    def freeze(self) -> None:
        """Makes it hang, without closing its connections."""

    def thaw(self) -> None:
        """Ends `freeze`."""

    def launch(self) -> None:
        """Starts it again after it has ended, without waiting."""

    def wait_until_up(self) -> None:
        """Returns when the cluster has the node."""


class SeveralBrokers(KafkaCluster):
    """As many brokers as nodes. Topics and internal topics have as many replicas, at most three.

    `stop`, `kill`, `freeze` and the like act on the first node: `node` gives each of them. `end` kills all.
    """

    _heap = "320m"
    logins: Mapping[int, int] = MappingProxyType({})
    """Ports of SASL listeners by node; those of the first node are in its properties."""

    def __init__(
        self,
        name: str,
        jars: Path,
        folder: Path,
        nodes: Sequence[int] = NODES,
        more: Mapping[str, str] | None = None,
        *,
        replicas: int | None = None,
        is_measured: bool = False,
    ) -> None:
        """Returns when the cluster has all nodes. The first of them must be 1. replicas: of topics that do not set
        their own. is_measured: configured as a cluster of one."""
        assert nodes[0] == 1
        self._replicas = min(len(nodes), 3) if replicas is None else replicas
        self._others: dict[int, FurtherBroker] = {}
        super().__init__(name, jars, folder, {**_replicated(self._replicas), **(more or {})}, is_measured=is_measured)
        try:
            for node in nodes[1:]:
                self._others[node] = self._further(node)
            for other in self._others.values():
                other.wait_until_up()
        except BaseException:
            self.end()
            raise

    @property
    def addresses(self) -> dict[int, Endpoint]:
        """The client listener of every node."""
        first = {1: Endpoint.of(self.bootstrap_servers)}
        return first | {node: Endpoint.of(each.address) for node, each in self._others.items()}

    @property
    def every_address(self) -> str:
        """Addresses for a client that must connect whichever node is down."""
        return ",".join(map(str, self.addresses.values()))

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the running processes."""
        return self.pid, *(other.pid for other in self._others.values())

    def node(self, node: int) -> Node:
        """One of the nodes."""
        return self if node == 1 else self._others[node]

    def add(self, node: int) -> None:
        """Adds a node while the others run; returns when the cluster has it."""
        self._others[node] = self._further(node)
        self._others[node].wait_until_up()

    def end(self) -> None:
        """Kills all running nodes."""
        for other in self._others.values():
            other.kill()
        self.kill()

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads a partition, according to node 1; -1 for none."""
        return self._partition(topic, partition).leader_id  # type: ignore[no-any-return]

    def is_in_sync(self, topic: str, partition: int, node: int) -> bool:
        """True if that node has the whole partition, according to node 1."""
        return node in self._partition(topic, partition).isr_nodes

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Gives the leadership to a node with a replica; returns when it has taken over, and all nodes know."""
        others = [each for each in self._partition(topic, partition).replica_nodes if each != node]
        assert len(others) < len(self._partition(topic, partition).replica_nodes), f"{node} has no replica"
        self.place(topic, partition, node, *others)

    def place(self, topic: str, partition: int, *nodes: int) -> None:
        """Puts the replicas of a partition on these nodes, the first of which leads it; returns as `move_leader`."""
        moved = {"partition_index": partition, "replicas": nodes}
        self.ask(*_REASSIGN, timeout=10_000, topics=[{"name": topic, "partitions": [moved]}])
        chosen = [{"topic": topic, "partitions": [partition]}]

        def is_moved() -> bool:
            self.ask(*_ELECT_LEADERS, election_type=_PREFERRED, topic_partitions=chosen, timeout=10_000)
            seen = (self._partition(topic, partition, each) for each in self.addresses)
            return all(each.leader_id == nodes[0] and set(each.replica_nodes) == set(nodes) for each in seen)

        eventually(f"{topic}-{partition} is on {nodes}", is_moved, interval=0.1)

    @cached_property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The lowest and the highest version of each API that node 1 advertises."""
        answer = ask(Endpoint.of(self.bootstrap_servers), *_API_VERSIONS)
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def ask(self, api_key: int, version: int, at: int = 1, /, **given: Any) -> Any:
        """The answer of a node, with any errors in it. version: if the node does not have it, its highest version."""
        return ask(self.addresses[at], api_key, min(version, self.versions[api_key][1]), **given)

    def _partition(self, topic: str, partition: int, at: int = 1) -> Any:
        """The partition according to a node, as soon as it knows it."""

        def found() -> Any:
            answer = self.ask(*_METADATA, at, topics=[{"name": topic}])
            return next((each for each in answer.topics[0].partitions if each.partition_index == partition), None)

        return eventually(f"{topic}-{partition} is known", found)

    def _further(self, node: int) -> FurtherBroker:
        logins = {"SASL": f"127.0.0.1:{self.logins[node]}"} if node in self.logins else {}
        return FurtherBroker(self, logins, logins, node=node, heap=self._heap)


def ask(endpoint: Endpoint, api_key: int, version: int, **given: Any) -> Any:
    """The answer to one request on a new connection."""
    with connected(endpoint) as connection:
        answer = connection.ask(request(api_key, version, given))
    assert answer is not None, f"{endpoint} closed the connection"
    return read(NAMES[api_key], version, answer)


@contextmanager
def connected(endpoint: Endpoint) -> Iterator[RawConnection]:
    """A connection that closes at the end."""
    connection = RawConnection(endpoint)
    try:
        yield connection
    finally:
        connection.close()


def _replicated(replicas: int) -> Mapping[str, str]:
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {
        **{f"{each}.replication.factor": str(replicas) for each in internal},
        "default.replication.factor": str(replicas),
        "min.insync.replicas": "1",
        # A partition whose replica died must soon get another leader.
        "replica.lag.time.max.ms": "3000",
        # Leaders stay where a test puts them.
        "auto.leader.rebalance.enable": "false",
    }
