"""A context for tests of a `Router`: it sends nothing, and returns the answers of the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mesh.routing.kit.errors import error_answer
from mesh.routing.names import RouteName
from mesh.routing.spi import Node, Request, Respond, RouteUnavailable
from mesh.security.principals import ANONYMOUS, Principal
from mesh.wire.trees import Tree


class FakeContext:
    """A context that sends nothing. Implements `RouterContext`. answers: makes the answers of each route; a route
    without an entry is unavailable. nodes: the node ids of each route, as clients see them. node: the node to which the
    client is connected. sent: the requests that were sent, in order."""

    def __init__(
        self,
        answers: Mapping[str, Callable[[Request], Tree]],
        nodes: Mapping[str, Sequence[int]] | None = None,
        node: Node | None = None,
        principal: Principal = ANONYMOUS,
        client_id: str | None = "test",
    ) -> None:
        self.node = node
        self.session_id = "1"
        self.principal = principal
        self.client_id = client_id
        self.sent: list[tuple[Node, Request]] = []
        self._answers = answers
        self._nodes = {route: tuple((nodes or {}).get(route, ())) for route in answers}

    def any_node(self, route: RouteName) -> Node:
        return Node(route, next(iter(self._nodes[route]), None))

    def node_for_id(self, id: int) -> Node | None:
        return next((Node(RouteName(route), id) for route, ids in self._nodes.items() if id in ids), None)

    async def send(self, node: Node, request: Request) -> Tree:
        self.sent.append((node, request))
        if node.route not in self._answers:
            raise RouteUnavailable(node.route)
        return self._answers[node.route](request) if request.wants_answer else {}

    def error(self, request: Request, code: int) -> Respond:
        return Respond(error_answer(request.api, request.version, request.body, code))
