"""One client's connection to a router, and the connection to a broker that carries those of its requests that pass.

It is a relay's connection to a node of one leaf; the address that is no node's leads to any node of the default leaf.
What a request asks of other leaves is asked over connections of the client's own (`SideLinks`), and answered here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.routing.features import with_apis
from mesh.routing.guards.judge import Judge
from mesh.routing.guards.translation import GuardedTranslation
from mesh.runtime.relay.connection import BEFORE_AUTHENTICATION, UNCOUNTED, RelayConnection
from mesh.runtime.relay.leg_opener import LegOpener
from mesh.runtime.router.leaves import RouterLeaf
from mesh.runtime.router.request_room import RequestRoom
from mesh.runtime.router.services import RouterServices
from mesh.runtime.router.side_links import SideLinks
from mesh.security.rules import Refusal
from mesh.telemetry.logs import get_logger
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.errors import ProtocolError
from mesh.wire.features import Features
from mesh.wire.produce_batches import client_id_in
from mesh.wire.relaying import LARGEST_LOCAL
from mesh.wire.routed import RoutedConnection, Translation

log = get_logger(__name__)

_KEY: Final = Struct(">h")
_KEY_AT: Final = 4
_NOWHERE: Final = -2
"""A node that no cluster has."""


class RouterConnection(RelayConnection):
    """One client's connection. node: whose address the client came to, as clients call it; None for the one that is no
    node's."""

    answered_here = BEFORE_AUTHENTICATION

    def __init__(self, router: RouterServices, node: int | None) -> None:
        self._router = router
        self._leaf, known = self._place(node)
        self._side = SideLinks(self._leaf.services.listener.admission.reach_out)
        self.judge: Judge | None = None
        self._serving: asyncio.Task[None] | None = None
        super().__init__(self._leaf.services, known)
        self._is_named = known == _NOWHERE  # so that it is not counted as a node

    def _place(self, node: int | None) -> tuple[RouterLeaf, int | None]:
        leaves = self._router.leaves
        if node is None:
            return leaves.default, None
        leaf, known = leaves.ids.real(node)
        if leaf not in leaves.numbers:
            return leaves.default, _NOWHERE  # of a cluster that is not behind this router
        return leaves.by_number[leaf], known

    def _make_wire(self) -> RoutedConnection:
        services = self._services
        if services.listener.security.rules is not None:
            self.judge = Judge(self.client, self._router.requests.topic_names)
        return RoutedConnection(
            services.served,
            BEFORE_AUTHENTICATION,
            services.nodes,
            self._translation(),
            self._answered,
            LARGEST_LOCAL,
            self._guard if self._has_sasl else None,
            None if self._router.memory is None else RequestRoom(self._router.memory, self.room_granted),
        )

    def _translation(self) -> Translation:
        translation: Translation = self._router.leaves.translation(self._leaf)
        return translation if self.judge is None else GuardedTranslation(translation, self.judge)

    def room_granted(self) -> None:
        """A request that had to wait for memory may be taken."""
        if self.client.is_open:
            self._send(self._wire.pass_on(self._listener.now()))
            self._go_on()
            self._pace()

    # Called by its runtime

    def leaves_changed(self) -> None:
        """Other names from the next request on; the end, where its leaf was removed."""
        if self._leaf.number not in self._router.leaves.numbers:
            self.client.close()
        elif isinstance(self._wire, RoutedConnection):
            self._wire.translation = self._translation()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._node is None and (named := self._router.node_of(transport)) is not None:
            self._leaf, self._node = self._place(named)
            self._services = self._leaf.services
            self._opener = LegOpener(self._services, self.client.id)
            self._wire = self._make_wire()
            self._is_named = True
        super().connection_made(transport)

    # Called by its transport

    def opened(self) -> None:
        if not self._router.leaves.are_known:
            self._looking = asyncio.get_running_loop().create_task(self._first_look(), name="wait for nodes")

    def closed(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
            self._serving = None
        self._side.close()
        super().closed()

    def leg_opened(self) -> None:
        super().leg_opened()
        self._go_on()  # a node says what it serves when it is there
        self._pace()

    def served(self) -> Mapping[ApiKey, Versions]:
        served = self._router.leaves.served(self._services.advertised)
        if self._node is None:
            return served
        return self._services.nodes.served_at(self._node, {key: (v.lowest, v.highest) for key, v in served.items()})

    def features(self) -> Features:
        leaves = self._router.leaves
        return with_apis(leaves.features(), leaves.served(self._services.advertised))

    # How

    async def _look(self) -> None:
        await self._router.leaves.first_look()

    def _may_answer_here(self) -> bool:
        if not super()._may_answer_here() or self._serving is not None:
            return False
        if self.judge is not None and self._wire.in_flight > 1:
            return False  # a broker takes up one after the other, and what is left of a Produce has its place
        # Behind its address a broker that is down looks down: to one that says its versions, Java comes back at once.
        return self._node is None or self._leg is None or self._leg.is_open

    def _serve_here(self, frame: bytes) -> None:
        if _KEY.unpack_from(frame, _KEY_AT)[0] in LISTENER_TABLE:
            super()._serve_here(frame)
            return
        self._serving = asyncio.get_running_loop().create_task(self._serve_divided(frame), name="a divided request")

    async def _serve_divided(self, frame: bytes) -> None:
        began = self._listener.now()
        try:
            answer = await self._router.requests.answer(self, frame)
        except ProtocolError as problem:
            self._serving = None
            self.client.refuse(problem)
            return
        except Exception:
            self._serving = None
            log.exception("a connection was closed: kafka-mesh has a bug", virtual_cluster=self._listener.name)
            self.client.abort()
            return
        self._serving = None
        self._count(ApiKey(_KEY.unpack_from(frame, _KEY_AT)[0]), began)
        self._answered_here(answer)

    def _count(self, api_key: ApiKey, began: float) -> None:
        if api_key not in UNCOUNTED and (rest := self._listener.admission.take(self.client)) > 0:
            self._listener.metrics.throttled(self._listener.name, api_key.name)
            self.client.rest(rest)

    def refused(self, api_key: ApiKey, frame: bytes, refusals: Sequence[Refusal]) -> None:
        for each in refusals:
            self._listener.audit.refused(self.client, api_key, client_id_in(frame), each, self._listener.now())

    @property
    def node(self) -> int | None:
        """Of that leaf, by the id that its cluster gave it; None: any."""
        return self._node

    @property
    def leaf(self) -> RouterLeaf:
        """The one that it leads to."""
        return self._leaf

    @property
    def side_links(self) -> SideLinks:
        return self._side
