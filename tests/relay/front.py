"""What stands in front of a cluster, as one who connects to it sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.integration.raw import Endpoint
from tests.integration.relay import Relay
from tests.relay.cluster import SeveralBrokers

BETWEEN_BROKERS = frozenset({83, 84, 85, 86, 87})
"""The state of share groups, which brokers write for each other: 4.3 advertises that to clients, none of them asks."""


@dataclass(frozen=True, slots=True)
class Front:
    """doors: where to connect to, for each node. advertised: what is said in place of a node's own address, where
    answers hold one. hidden: APIs that it does not advertise."""

    doors: Mapping[int, Endpoint]
    advertised: Mapping[Endpoint, Endpoint] = field(default_factory=dict)
    hidden: frozenset[int] = frozenset()

    @property
    def own_addresses(self) -> Mapping[Endpoint, Endpoint]:
        """The other way round: whose the address is that was said."""
        return {said: own for own, said in self.advertised.items()}


def tcp_front(cluster: SeveralBrokers, relay: Relay) -> Front:
    """A relay that knows nothing of Kafka: answers hold the addresses of the nodes themselves."""
    doors = {node: Endpoint.of(relay.stand_in_for(str(each))) for node, each in cluster.addresses.items()}
    return Front(doors, {each: each for each in cluster.addresses.values()})


FRONTS: Mapping[str, Callable[[SeveralBrokers, Relay], Front]] = {"tcp": tcp_front}
"""What is compared with the brokers themselves. The relay ends with the tests."""
