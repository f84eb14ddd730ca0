"""A front of a cluster, as a connecting client sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.raw import Endpoint
from tests.integration.relay import Relay
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import SeveralBrokers
from tests.relay.requests import KEYS, KNOWN

BETWEEN_BROKERS = frozenset({4, 5, 6, 7, 56, 83, 84, 85, 86, 87})
"""APIs between brokers: with ZooKeeper for replicas, since 4.1 for the state of share groups. Brokers advertise them to
clients, which do not use them."""
OLDEST: Mapping[int, int] = {
    KEYS[api]: min(versions) for api, versions in KNOWN.items() if api in KEYS and api != "produce"
}
"""The first version of each API in Kafka 4. Produce has fewer versions since, but is advertised from 0 on."""


@dataclass(frozen=True, slots=True)
class Front:
    """bootstrap: where a client begins. doors: the address to connect to for each node. advertised: the address in
    answers in place of a node's own address. hidden: APIs that the front does not advertise. oldest: the first version
    of others, if a broker has earlier ones."""

    bootstrap: Endpoint
    doors: Mapping[int, Endpoint]
    advertised: Mapping[Endpoint, Endpoint] = field(default_factory=dict)
    hidden: frozenset[int] = frozenset()
    oldest: Mapping[int, int] = field(default_factory=dict)

    @property
    def own_addresses(self) -> Mapping[Endpoint, Endpoint]:
        """The reverse: the own address behind an advertised one."""
        return {said: own for own, said in self.advertised.items()}


@contextmanager
def tcp_front(cluster: SeveralBrokers, _folder: Path) -> Iterator[Front]:
    """A TCP relay that knows nothing of Kafka: answers contain the nodes' own addresses."""
    relay = Relay()
    doors = {node: Endpoint.of(relay.stand_in_for(str(each))) for node, each in cluster.addresses.items()}
    yield Front(doors[1], doors, {each: each for each in cluster.addresses.values()})
    relay.close()


@contextmanager
def relayed(cluster: SeveralBrokers, folder: Path, interceptors: Sequence[Mapping[str, Any]] = ()) -> Iterator[Front]:
    """A front with kafka-mesh: a relay of the cluster, and these interceptors."""
    nodes = list(cluster.addresses)
    mesh = RelayMesh(folder, ",".join(map(str, cluster.addresses.values())), nodes, interceptors=interceptors)
    try:
        doors = {node: Endpoint.of(mesh.address_of(node)) for node in nodes}
        advertised = {own: doors[node] for node, own in cluster.addresses.items()}
        yield Front(Endpoint.of(mesh.bootstrap_servers), doors, advertised, BETWEEN_BROKERS, OLDEST)
    finally:
        mesh.kill()
