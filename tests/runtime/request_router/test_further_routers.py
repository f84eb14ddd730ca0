"""A router that decides for each request behind another one."""

from __future__ import annotations

from collections.abc import Sequence

from structlog.testing import capture_logs

from mesh.routing.spi import (
    Disconnect,
    Node,
    Request,
    Respond,
    RespondWithoutReply,
    Router,
    RouterContext,
    RouterResult,
    RouteUnavailable,
)
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.runtime.entity_router.test_requests import coordinators, errors, offsets, produce
from tests.runtime.relay.loops import anyhow, until
from tests.runtime.request_router.harness import FURTHER, US, US_NODE, ToRoute, routed_twice

LIST_OFFSETS = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 7}]}]}


def to_further() -> Router:
    return ToRoute(FURTHER)


class ToNode(ToRoute):
    """Sends everything to the client's own node. nodes: as the router sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node | None] = []

    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        self.nodes.append(context.node)
        node = context.node or context.any_node(self.route)
        answer = await context.send(node, request)
        return Respond(answer) if request.wants_answer else RespondWithoutReply()


def nodes(routers: Sequence[Router]) -> list[list[Node | None]]:
    return [each.nodes for each in routers if isinstance(each, ToNode)]


@anyhow
async def test_each_router_decides_in_turn() -> None:
    async with routed_twice(to_further, lambda: ToRoute(US)) as made:
        made.us.answers = lambda api_key, version, request: (
            LIST_OFFSETS if api_key is ApiKey.LIST_OFFSETS else coordinators(made.us, request)
        )
        client = await made.client()
        answer = await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("orders"))
        assert answer["topics"][0]["partitions"][0]["offset"] == 7
        asked = {"key_type": 0, "coordinator_keys": ["one"]}
        (found,) = (await client.asked(ApiKey.FIND_COORDINATOR, 4, asked))["coordinators"]
        assert (found["node_id"], found["port"]) == (US_NODE, made.ports[US_NODE])
        assert made.eu.seen == []
        (front,), (behind,) = made.in_front, made.routers
        for each in (front, behind):
            assert isinstance(each, ToRoute)
            assert [request.api for request in each.asked] == [ApiKey.LIST_OFFSETS, ApiKey.FIND_COORDINATOR]
            assert each.asked[0].body["topics"][0]["name"] == "orders"
        client.close()
        await until(lambda: all(isinstance(each, ToRoute) and each.is_closed for each in (front, behind)))


@anyhow
async def test_the_node_that_a_client_came_to() -> None:
    """Each router sees it as a node of its own routes."""

    def to_node() -> Router:
        router = ToNode()
        router.route = FURTHER
        return router

    async with routed_twice(to_node, ToNode) as made:
        made.us.answers = made.eu.answers = lambda *_: LIST_OFFSETS
        client, anywhere = await made.client(US_NODE), await made.client()
        await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("orders"))
        assert [api for api, _ in made.us.seen] == [ApiKey.LIST_OFFSETS]
        await anywhere.asked(ApiKey.LIST_OFFSETS, 6, offsets("orders"))
        fronts, behinds = (
            [each.nodes for each in some if isinstance(each, ToNode)] for some in (made.in_front, made.routers)
        )
        assert fronts == [[Node(FURTHER, US_NODE)], [None]]
        assert behinds == [[Node(US, US_NODE)], [None]]


@anyhow
async def test_a_produce_without_acks_has_no_answer() -> None:
    async with routed_twice(to_further) as made:
        made.eu.answers = lambda *_: None
        client = await made.client()
        client.ask_tree(ApiKey.PRODUCE, 9, produce("orders", acks=0))
        await until(lambda: [api for api, _ in made.eu.seen] == [ApiKey.PRODUCE])


@anyhow
async def test_errors_of_the_router_behind() -> None:
    class Refusing(Router):
        async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
            return context.error(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async with routed_twice(to_further, Refusing) as made:
        client = await made.client()
        told = await client.asked(ApiKey.PRODUCE, 9, produce("orders"))
        assert errors(told) == {"orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


class Ending(Router):
    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        return Disconnect("not you")


class Silent(Router):
    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        return RespondWithoutReply()


class Careful(Router):
    """Reports the route behind it, or the node, that failed."""

    def __init__(self, node: int | None = None) -> None:
        self.node = node
        self.reason = ""

    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        try:
            return Respond(await context.send(Node(FURTHER, self.node), request))
        except RouteUnavailable as problem:
            self.reason = str(problem)
            return context.error(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@anyhow
async def test_a_router_behind_that_ends_the_connection_is_unavailable() -> None:
    async with routed_twice(Careful, Ending) as made:
        client = await made.client()
        answer = await client.asked(ApiKey.HEARTBEAT, 4, {"group_id": "one"})
        assert answer["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        (front,) = made.in_front
        assert isinstance(front, Careful) and front.reason == "further: its router ends the connection: not you"


@anyhow
async def test_a_node_that_is_not_behind_that_router() -> None:
    async with routed_twice(lambda: Careful(77 << 20)) as made:
        client = await made.client()
        await client.asked(ApiKey.HEARTBEAT, 4, {"group_id": "one"})
        (front,) = made.in_front
        assert isinstance(front, Careful) and front.reason == f"route further has no node {77 << 20}"


@anyhow
async def test_a_router_behind_that_fails_closes_the_connection() -> None:
    async with routed_twice(to_further, Silent) as made:
        client = await made.client()
        with capture_logs() as logs:
            client.ask_tree(ApiKey.HEARTBEAT, 4, {"group_id": "one"})
            assert await client.rest() == b""
        assert [each["event"] for each in logs if each["log_level"] == "error"] == ["connection closed: router failed"]


@anyhow
async def test_what_both_routers_serve_is_served() -> None:
    async with routed_twice(to_further, serves={ApiKey.HEARTBEAT: (0, 2), ApiKey.METADATA: (0, 12)}) as made:
        client = await made.client()
        listed = (await client.asked(ApiKey.API_VERSIONS, 0, {}))["api_keys"]
        highest = {each["api_key"]: each["max_version"] for each in listed}
        assert (highest[ApiKey.HEARTBEAT], ApiKey.PRODUCE in highest) == (2, False)


@anyhow
async def test_status_has_all_leaves() -> None:
    async with routed_twice(to_further) as made:
        assert {leaf["cluster"] for leaf in made.runtime.status()["router"]["leaves"]} == {"eu", "us"}
