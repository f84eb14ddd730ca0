"""The brokers of an upstream cluster, and who leads which partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.access import Access
from mesh.upstream.buffers import ReceiveBuffers
from mesh.upstream.connection import BrokerLink, Unreachable
from mesh.wire.client import messages
from mesh.wire.client.messages import Broker, ClusterLayout
from mesh.wire.errors import ProtocolError

log = structlog.get_logger(__name__)

LATEST: Final = -1
EARLIEST: Final = -2
DEFAULT_PORT: Final = 9092


@dataclass(slots=True)
class Node:
    """fetching: for the Fetch that is parked at the broker; asking: for all that is to be answered at once."""

    broker: Broker
    fetching: BrokerLink
    asking: BrokerLink

    def close(self) -> None:
        self.fetching.close()
        self.asking.close()


class UpstreamCluster:
    """The links to the nodes that are known, and to those of the configuration until some are."""

    def __init__(self, name: ClusterName, bootstrap_servers: str, access: Access, buffers: ReceiveBuffers) -> None:
        self.name = name
        self.nodes: dict[int, Node] = {}
        self._access = access
        self._buffers = buffers
        self._bootstrap = [self._link(*_address(each)) for each in bootstrap_servers.split(",")]
        self._failing: set[str] = set()

    async def layout(self, topics: Collection[TopicName]) -> ClusterLayout:
        """Ask the first node that answers for the leaders of these. Raises Unreachable if there is none."""
        reason = "no broker is known"
        for link in [*(node.asking for node in self.nodes.values()), *self._bootstrap]:
            try:
                served = (await link.versions()).get(messages.METADATA)
                request = messages.metadata_request(topics, served.highest if served else 0)
                layout = messages.decode_metadata(await link.request(request))
            except (Unreachable, ProtocolError) as problem:
                reason = str(problem)
                self.failed(link, reason)
                continue
            self.worked(link)
            self._take(layout.brokers)
            return layout
        raise Unreachable(reason)

    async def offset(
        self, source: UpstreamPartition, node: Node, epoch: int, which: int, read_committed: bool
    ) -> int | None:
        """Where a log begins (EARLIEST) or ends (LATEST); None if the leader does not say now. Raises Unreachable."""
        request = messages.list_offsets_request({source.topic: [(source.partition, epoch)]}, which, read_committed)
        try:
            found = messages.decode_list_offsets(await node.asking.request(request))
        except ProtocolError as problem:
            raise Unreachable(str(problem)) from problem
        error, offset = found.get((source.topic, source.partition), (-1, -1))
        return offset if not error and offset >= 0 else None

    def failed(self, link: BrokerLink, reason: str) -> None:
        """Tell it once until it works again."""
        if link.address not in self._failing:
            self._failing.add(link.address)
            log.warning("a broker cannot be read from", cluster=self.name, broker=link.address, reason=reason)

    def worked(self, link: BrokerLink) -> None:
        if link.address in self._failing:
            self._failing.discard(link.address)
            log.info("a broker can be read from again", cluster=self.name, broker=link.address)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        for link in self._bootstrap:
            link.close()

    def _take(self, brokers: Collection[Broker]) -> None:
        known: Mapping[int, Broker] = {broker.node_id: broker for broker in brokers}
        for node_id, node in list(self.nodes.items()):
            if known.get(node_id) != node.broker:
                node.close()
                del self.nodes[node_id]
        for node_id, broker in known.items():
            if node_id not in self.nodes:
                self.nodes[node_id] = Node(
                    broker, self._link(broker.host, broker.port), self._link(broker.host, broker.port)
                )

    def _link(self, host: str, port: int) -> BrokerLink:
        return BrokerLink(host, port, self._access, self._buffers.allocate)


def _address(text: str) -> tuple[str, int]:
    """Of one bootstrap server, as librdkafka takes it: a protocol in front of it and a missing port are allowed."""
    text = text.strip().rpartition("://")[2]
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or host.endswith(":"):
        return text.strip("[]"), DEFAULT_PORT
    return host.strip("[]"), int(port)
