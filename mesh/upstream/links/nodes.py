"""The brokers of an upstream cluster, and a way to send any request to any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

import structlog

from mesh.records.spans import ClusterName, TopicName
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import Allocate, Unreachable
from mesh.wire.client import messages
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import Broker, ClusterLayout, VersionRange
from mesh.wire.errors import ProtocolError

log = structlog.get_logger(__name__)

DEFAULT_PORT: Final = 9092
NEXT_AFTER: Final = 1.0
"""Seconds without an answer after which another node is asked, too."""
FETCH_CHANNEL: Final = "fetching"
REQUEST_CHANNEL: Final = "asking"

Answer = TypeVar("Answer")


class UpstreamNode:
    """One broker. It has a link of its own for each channel, so requests in one do not delay those in another.
    fetch_link: for the Fetch that waits at the broker. request_link: for requests that are answered at once."""

    def __init__(self, broker: Broker, settings: ConnectionSettings, allocate: Allocate) -> None:
        self.broker: Final = broker
        self._settings = settings
        self._allocate = allocate
        self._links: dict[str, BrokerLink] = {}

    def link(self, channel: str) -> BrokerLink:
        """Returns the link of a channel, made at the first call; it connects when something is sent."""
        link = self._links.get(channel)
        if link is None:
            link = self._links[channel] = BrokerLink(self.broker.host, self.broker.port, self._settings, self._allocate)
        return link

    @property
    def fetch_link(self) -> BrokerLink:
        return self.link(FETCH_CHANNEL)

    @property
    def request_link(self) -> BrokerLink:
        return self.link(REQUEST_CHANNEL)

    def close(self) -> None:
        for link in self._links.values():
            link.close()


class Nodes:
    """The nodes that the last Metadata answer named, and the bootstrap servers of the configuration.

    * `nodes[id].link(channel)` carries a request to that node: to the leader of a partition, a coordinator, a
      controller.
    * `ask_any` sends a request to any node. Each call begins with a different node; those that were slow come last.
      When one fails, or does not answer for `NEXT_AFTER` seconds, the next one is asked as well; the first answer
      counts. So a node that hangs costs a second, and not a timeout for each that comes before a good one.
    * `layout` looks up the leaders of partitions, and updates `nodes` from the answer. A node whose address changes
      counts as another node: requests in flight to the old address fail.
    """

    def __init__(
        self, cluster: ClusterName, bootstrap_servers: str, settings: ConnectionSettings, allocate: Allocate = bytearray
    ) -> None:
        self.name: Final = cluster
        self.rack: Final = settings.rack
        self.nodes: dict[int, UpstreamNode] = {}
        self._settings = settings
        self._allocate = allocate
        self._bootstrap = [BrokerLink(*_address(each), settings, allocate) for each in bootstrap_servers.split(",")]
        self._turn = 0
        self._slow: set[str] = set()
        self._failing: set[str] = set()

    async def layout(self, topics: Collection[TopicName]) -> ClusterLayout:
        """Returns the leaders of these topics. Raises Unreachable if no node answers."""

        def request_for(served: Mapping[int, VersionRange]) -> ClientRequest:
            metadata = served.get(messages.METADATA)
            return messages.metadata_request(topics, metadata.highest if metadata else 0)

        layout = await self.ask_any(request_for, _layout)
        self._take(layout.brokers)
        return layout

    async def ask_any(
        self,
        request_for: Callable[[Mapping[int, VersionRange]], ClientRequest],
        decode: Callable[[ClientResponse], Answer],
    ) -> Answer:
        """Returns the first answer of a node to a request that may be sent twice.

        request_for: makes the request for a broker with these versions. decode: raises ProtocolError for an invalid
        answer; then the next node is asked. Raises Unreachable if no node answers.
        """
        waiting = self._in_turn()
        asked: dict[asyncio.Task[Answer], BrokerLink] = {}
        reason = "no broker is known"
        loop = asyncio.get_running_loop()
        try:
            while waiting or asked:
                if waiting:
                    link = waiting.pop(0)
                    asked[loop.create_task(self._ask(link, request_for, decode))] = link
                patience = NEXT_AFTER if waiting else None
                done, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                self._slow.update(each.address for each in asked.values() if not done)
                for task in done:
                    link = asked.pop(task)
                    try:
                        answer = task.result()
                    except (Unreachable, ProtocolError) as problem:
                        reason = f"{link.address}: {problem}"
                        self.failed(link, str(problem))
                    else:
                        self.worked(link)
                        return answer
        finally:
            for task in asked:
                task.cancel()
        raise Unreachable(reason)

    def failed(self, link: BrokerLink, reason: str) -> None:
        """Notes a failure of a link; logs it once, until the link works again."""
        self._slow.add(link.address)
        if link.address not in self._failing:
            self._failing.add(link.address)
            log.info("broker unreadable", cluster=self.name, broker=link.address, reason=reason)

    def worked(self, link: BrokerLink) -> None:
        if link.address in self._slow:
            self._slow.discard(link.address)
            if link.address in self._failing:
                self._failing.discard(link.address)
                log.info("broker readable again", cluster=self.name, broker=link.address)

    def close(self) -> None:
        """Closes all links for good."""
        for node in self.nodes.values():
            node.close()
        for link in self._bootstrap:
            link.close()

    async def _ask(
        self,
        link: BrokerLink,
        request_for: Callable[[Mapping[int, VersionRange]], ClientRequest],
        decode: Callable[[ClientResponse], Answer],
    ) -> Answer:
        return decode(await link.request(request_for(await link.versions())))

    def _in_turn(self) -> list[BrokerLink]:
        """Returns the links of the known nodes, beginning with a different one at each call, then those of the
        bootstrap servers. The slow ones come last."""
        known = [node.request_link for node in self.nodes.values()]
        self._turn += 1
        first = self._turn % len(known) if known else 0
        links = [*known[first:], *known[:first], *self._bootstrap]
        return sorted(links, key=lambda link: link.address in self._slow)

    def _take(self, brokers: Collection[Broker]) -> None:
        known: Mapping[int, Broker] = {broker.node_id: broker for broker in brokers}
        for node_id, node in list(self.nodes.items()):
            if known.get(node_id) != node.broker:
                node.close()
                del self.nodes[node_id]
        for node_id, broker in known.items():
            if node_id not in self.nodes:
                self.nodes[node_id] = UpstreamNode(broker, self._settings, self._allocate)
        addresses = {node.request_link.address for node in self.nodes.values()} | {
            link.address for link in self._bootstrap
        }
        self._slow &= addresses
        self._failing &= addresses


def _layout(response: ClientResponse) -> ClusterLayout:
    layout = messages.decode_metadata(response)
    if not layout.brokers:
        raise ProtocolError("unexpected_response", "the broker knows no brokers yet")
    return layout


def _address(text: str) -> tuple[str, int]:
    """Returns the address of one bootstrap server, in librdkafka's syntax: a protocol before the host is allowed, and
    the port may be missing."""
    text = text.strip().rpartition("://")[2]
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or host.endswith(":"):
        return text.strip("[]"), DEFAULT_PORT
    return host.strip("[]"), int(port)
