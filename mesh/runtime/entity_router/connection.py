"""The connection of one client to a router, and the connection to a broker that carries the requests that pass.

It is a relay's connection to a node of one leaf. The bootstrap address leads to any node of the default leaf. Parts of
requests for other leaves go over further connections of the client (`SideLinks`), and the mesh answers the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from struct import Struct
from typing import Final

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.routing.features import with_apis
from mesh.routing.guards.judge import Judge
from mesh.routing.guards.translation import GuardedTranslation
from mesh.routing.moves.translation import WRITING, MovingTranslation
from mesh.runtime.entity_router.leaves import RouterLeaf
from mesh.runtime.entity_router.request_room import RequestRoom
from mesh.runtime.entity_router.services import RouterServices
from mesh.runtime.entity_router.side_links import SideLinks
from mesh.runtime.entity_router.topology_rules import TopologyRules
from mesh.runtime.interception.stage import InterceptionHandler
from mesh.runtime.relay.connection import BEFORE_AUTHENTICATION, UNCHARGED, RelayConnection
from mesh.runtime.relay.leg_opener import LegOpener
from mesh.runtime.relay.topologies import interception_handlers
from mesh.security.rules import Refusal
from mesh.tasks import OwnedTask, TaskName, begin
from mesh.telemetry.logs import get_logger
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.errors import ProtocolError
from mesh.wire.features import Features
from mesh.wire.messages import Buffer
from mesh.wire.produce_batches import client_id_in
from mesh.wire.relaying import LARGEST_LOCAL, RelayedRequest
from mesh.wire.routed import RoutedConnection, Translation

log = get_logger(__name__)

_KEY: Final = Struct(">h")
_KEY_AT: Final = 4
_NOWHERE: Final = -2
"""A node id that no cluster has."""


class RouterConnection(RelayConnection):
    """The connection of one client. node: the id of the node that the client connected to, as clients see it; None for
    an address that is no node's."""

    local_apis = BEFORE_AUTHENTICATION

    def __init__(self, router: RouterServices, node: int | None) -> None:
        self._router = router
        self._leaf, known = self._locate(node)
        self._side = SideLinks(self._leaf.services.listener.admission.count_broker_connections)
        self.judge: Judge | None = None
        self._serving: asyncio.Task[None] | None = None
        super().__init__(self._leaf.services, known)
        self._is_named = known == _NOWHERE  # so that lost legs are not counted for this id

    def _locate(self, node: int | None) -> tuple[RouterLeaf, int | None]:
        leaves = self._router.leaves
        if node is None:
            return leaves.default, None
        leaf, known = leaves.ids.real(node)
        if leaf not in leaves.numbers:
            return leaves.default, _NOWHERE  # a node of a cluster that is not behind this router
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
            None
            if self._router.memory is None
            else RequestRoom(self._router.memory, self.client.guarded(self.room_granted)),
        )

    def _translation(self) -> Translation:
        leaves = self._router.leaves
        translation: Translation = leaves.translation(self._leaf)
        if (gate := self._router.requests.gate) is not None:
            is_moved_from = leaves.names.concatenated.is_moved_from(self._leaf.number)
            translation = MovingTranslation(translation, gate, is_moved_from=is_moved_from)
        if self.judge is None:
            return translation
        on_refused = partial(_audit, self._listener, self.client)  # a method would make a cycle of references
        return GuardedTranslation(translation, self.judge, on_refused)

    def _interception_handlers(self) -> Sequence[InterceptionHandler]:
        rules = None if self.judge is None else TopologyRules(self.judge, self.refused)
        return interception_handlers(self._services, lambda: self._opener.node, rules, self._is_home_of)

    def _is_home_of(self, group: str) -> bool:
        return self._router.leaves.names.group_home(group) == self._leaf.number

    def room_granted(self) -> None:
        """Called when a request that waited for memory may be read."""
        if self.client.is_open:
            self._send_to_broker(self._wire.pass_on(self._listener.now()))
            self._go_on()
            self._pace()

    # Called by its runtime

    def leaves_changed(self) -> None:
        """Uses the new names from the next request on; closes the connection if its leaf was removed."""
        if self._leaf.number not in self._router.leaves.numbers:
            self.client.close()
        elif isinstance(self._wire, RoutedConnection):
            self._wire.translation = self._translation()

    @property
    def is_open(self) -> bool:
        return self.client.is_open

    def under_way(self) -> Iterable[RelayedRequest]:
        """Returns the requests that write, have passed, and are not answered yet. Implements
        `mesh.runtime.entity_router.moves.gate.WritingClient`."""
        return self._wire.under_way(WRITING)

    # Called by the event loop

    def made(self, transport: asyncio.BaseTransport) -> None:
        if self._node is None and (named := self._router.node_of(transport)) is not None:
            self._leaf, self._node = self._locate(named)
            self._services = self._leaf.services
            self._opener = LegOpener(self._services, self.client.id)
            self._wire = self._make_wire()
            self._interception = self._make_interception()
            self._is_named = True
        super().made(transport)

    # Called by its transport

    def opened(self) -> None:
        if not self._router.leaves.are_known:
            task = OwnedTask(TaskName.NODE_WAIT, self._listener.name)
            self._waiting_for_nodes = begin(task, self._wait_for_nodes, self.client.abort)

    def closed(self) -> None:
        with ExitStack() as closing:  # the last one first: what gives back what is counted
            if (gate := self._router.requests.gate) is not None and any(self.under_way()):
                closing.callback(gate.passed_unanswered)  # their broker may still carry them out
            if self._serving is not None:
                closing.callback(self._serving.cancel)
                self._serving = None
            closing.callback(super().closed)
            closing.callback(self._side.close)

    def leg_opened(self) -> None:
        super().leg_opened()
        self._go_on()  # a node reports its versions when it is reachable
        self._pace()

    def served(self) -> Mapping[ApiKey, Versions]:
        served = self._router.leaves.served(self._services.advertised)
        if self._node is None:
            return served
        return self._services.served_at(self._node, {key: (v.lowest, v.highest) for key, v in served.items()})

    def features(self) -> Features:
        leaves = self._router.leaves
        return with_apis(leaves.features(), leaves.served(self._services.advertised))

    # Internals

    async def _wait_until_known(self) -> None:
        await self._router.leaves.wait_until_known()

    def _may_answer_here(self) -> bool:
        if not super()._may_answer_here() or self._serving is not None:
            return False
        if self.judge is not None and self._wire.in_flight > 1:
            return False  # a broker handles one request at a time, and the rest of a Produce must stay in order
        # A broker that is down must look down: if its address still answered ApiVersions, the Java client would
        # reconnect at once.
        return self._node is None or self._leg is None or self._leg.is_open

    def _serve_here(self, frame: bytes) -> None:
        if _KEY.unpack_from(frame, _KEY_AT)[0] in LISTENER_TABLE:
            super()._serve_here(frame)
            return
        task = OwnedTask(TaskName.REQUEST, self._listener.name)
        self._serving = begin(task, partial(self._serve_divided, frame), self.client.abort)

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
            log.exception("connection closed: bug in kafka-mesh", **self.client.log_fields)
            self.client.abort()
            return
        self._serving = None
        self._count(ApiKey(_KEY.unpack_from(frame, _KEY_AT)[0]), began)
        self._send_local_answer(answer)

    def _count(self, api_key: ApiKey, began: float) -> None:
        if api_key not in UNCHARGED and (throttle := self._listener.admission.charge_request(self.client)) > 0:
            self._listener.metrics.throttled(self._listener.name, api_key.name)
            self.client.throttle(throttle)

    def refused(self, api_key: ApiKey, frame: bytes, refusals: Sequence[Refusal]) -> None:
        _audit(self._listener, self.client, api_key, frame, refusals)

    @property
    def node(self) -> int | None:
        """The node that the connection leads to, by the id that its cluster gave it; None for any."""
        return self._node

    @property
    def leaf(self) -> RouterLeaf:
        """The leaf that the connection leads to."""
        return self._leaf

    @property
    def side_links(self) -> SideLinks:
        return self._side


def _audit(
    listener: Listener, client: ClientTransport, api_key: ApiKey, frame: Buffer, refusals: Sequence[Refusal]
) -> None:
    for each in refusals:
        listener.audit.refused(client, api_key, client_id_in(frame), each, listener.now())
