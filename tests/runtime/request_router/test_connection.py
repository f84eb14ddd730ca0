"""Requests to a router that decides for each of them: what it gets, sends and answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mesh.apis.listener_table import LISTENER_TABLE
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
    Served,
)
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.security.principals import ANONYMOUS, Principal
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.features import Features, Levels
from mesh.wire.trees import Tree
from tests.routing.unions import RENAMED, union_of
from tests.runtime.entity_router.test_requests import coordinators, errors, offsets, produce
from tests.runtime.relay.frames import versions_in
from tests.runtime.relay.loops import anyhow, everywhere, until
from tests.runtime.request_router.harness import EU, EU_NODE, US, US_NODE, ToRoute, routed

LIST_OFFSETS = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 7}]}]}


@anyhow
async def test_a_request_goes_where_its_router_sends_it() -> None:
    async with routed(lambda: ToRoute(US)) as made:
        made.us.answers = lambda *_: LIST_OFFSETS
        client = await made.client()
        answer = await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("orders"))
        assert answer["topics"][0]["partitions"][0]["offset"] == 7
        assert [api for api, _ in made.us.seen] == [ApiKey.LIST_OFFSETS]
        assert made.eu.seen == []
        (router,) = made.routers
        assert isinstance(router, ToRoute)
        assert router.asked[0].body["topics"][0]["name"] == "orders"


@anyhow
async def test_an_answer_has_the_names_of_its_request() -> None:
    """The names behind the route change while the request is at the cluster."""
    async with routed(lambda: ToRoute(US)) as made:
        behind = made.runtime.services.routes[US]
        assert isinstance(behind, EntityRouterRuntime)
        leaves = behind.leaves

        def answered_after_the_change(api_key: ApiKey, version: int, request: Tree) -> Tree:
            leaves.change([], [], union_of(RENAMED), leaves.ids)
            return LIST_OFFSETS

        made.us.answers = answered_after_the_change
        client = await made.client()
        answer = await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("orders"))
        assert [each["name"] for each in answer["topics"]] == ["orders"]


@anyhow
async def test_answers_have_the_nodes_that_clients_see() -> None:
    async with routed(lambda: ToRoute(US)) as made:
        made.us.answers = lambda api_key, version, request: coordinators(made.us, request)
        client = await made.client()
        answer = await client.asked(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["one"]})
        (found,) = answer["coordinators"]
        assert (found["node_id"], found["port"]) == (US_NODE, made.ports[US_NODE])
        brokers = (await client.asked(ApiKey.METADATA, 9, {"topics": None}))["brokers"]
        assert {each["node_id"]: each["port"] for each in brokers} == {US_NODE: made.ports[US_NODE]}


@everywhere
async def test_answers_leave_in_the_order_of_their_requests() -> None:
    gates = [asyncio.Event() for _ in range(10)]

    class Backwards(Router):
        """Answers a request when the one behind it is answered."""

        def __init__(self) -> None:
            self.count = 0

        async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
            number, self.count = self.count, self.count + 1
            if number + 1 < len(gates):
                await gates[number + 1].wait()
            gates[number].set()
            return context.error(request, number + 1)

    async with routed(Backwards) as made:
        client = await made.client()
        for number in range(len(gates)):
            client.ask_tree(ApiKey.HEARTBEAT, 4, {"group_id": "one"}, number)
        for number in range(len(gates)):
            assert (await client.tree(ApiKey.HEARTBEAT, 4, number))["error_code"] == number + 1


@anyhow
async def test_one_request_may_be_sent_to_several_routes() -> None:
    class Both(Router):
        """Adds up the answers of both clusters."""

        async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
            nodes = [context.any_node(route) for route in (EU, US)]
            answers = await asyncio.gather(*(context.send(node, request) for node in nodes))
            return Respond({"topics": [topic for answer in answers for topic in answer["topics"]]})

    async with routed(Both) as made:
        made.eu.answers = made.us.answers = lambda *_: LIST_OFFSETS
        client = await made.client()
        assert len((await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("orders")))["topics"]) == 2


@anyhow
async def test_the_node_that_a_client_came_to() -> None:
    seen: list[tuple[Node | None, Node | None, Node | None, str | None]] = []

    class Looks(Router):
        async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
            seen.append(
                (context.node, context.node_for_id(EU_NODE), context.node_for_id(US_NODE + 5), context.client_id)
            )
            return context.error(request, 0)

    async with routed(Looks) as made:
        for node, known in ((None, None), (US_NODE, Node(US, US_NODE))):
            client = await made.client(node)
            await client.asked(ApiKey.HEARTBEAT, 4, {"group_id": "one"})
            assert seen.pop() == (known, Node(EU, EU_NODE), None, "test")


@anyhow
async def test_a_produce_without_acks_has_no_place_among_the_answers() -> None:
    async with routed() as made:
        made.eu.answers = lambda api_key, version, request: None if api_key is ApiKey.PRODUCE else LIST_OFFSETS
        client = await made.client()
        client.ask_tree(ApiKey.PRODUCE, 9, produce("orders", acks=0), 1)
        await until(lambda: [api for api, _ in made.eu.seen] == [ApiKey.PRODUCE])
        client.ask_tree(ApiKey.LIST_OFFSETS, 6, offsets("orders"), 2)
        await client.tree(ApiKey.LIST_OFFSETS, 6, 2)


@anyhow
async def test_a_produce_passes_through_a_router() -> None:
    async with routed(lambda: ToRoute(US)) as made:
        made.us.answers = lambda *_: {
            "responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": 5}]}]
        }
        client = await made.client(US_NODE)
        assert errors(await client.asked(ApiKey.PRODUCE, 9, produce("orders"))) == {"orders": 0}
        ((_, request),) = made.us.seen
        assert request["topic_data"][0]["partition_data"][0]["records"] == b"records"


class Fails(Router):
    """Fails as its result says."""

    def __init__(self, result: RouterResult | Exception) -> None:
        self.result = result

    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@anyhow
async def test_what_closes_a_connection() -> None:
    for result in (RuntimeError("a bug"), Disconnect("enough"), RespondWithoutReply(), Respond({"topics": 5})):
        async with routed(lambda result=result: Fails(result)) as made:  # type: ignore[misc]
            client = await made.client()
            client.ask_tree(ApiKey.LIST_OFFSETS, 6, offsets("orders"))
            assert await client.rest() == b""
            other = await made.client()
            assert await other.ask(ApiKey.API_VERSIONS, 0), "others are served"


@anyhow
async def test_a_route_that_is_down_is_said_to_its_router() -> None:
    class Falls(Router):
        """Uses the second route if the first is down."""

        async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
            try:
                return Respond(await context.send(context.any_node(US), request))
            except RouteUnavailable:
                return Respond(await context.send(context.any_node(EU), request))

    async with routed(Falls) as made:
        made.eu.answers = lambda *_: LIST_OFFSETS
        await made.us.stop()
        client = await made.client()
        assert await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("orders"))
        (unanswered,) = [each.services.traffic.unanswered for each in made.runtime.leaves if str(each.path) == "us"]
        assert unanswered == {(ApiKey.LIST_OFFSETS, "unreachable"): 1}


@anyhow
async def test_nodes_of_other_routes_are_unavailable() -> None:
    class Wrong(Router):
        async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
            for node in (Node(EU, US_NODE), Node(EU, EU_NODE + 9)):
                try:
                    await context.send(node, request)
                except RouteUnavailable:
                    continue
                return Disconnect("it was sent")
            return context.error(request, 3)

    async with routed(Wrong) as made:
        client = await made.client()
        assert (await client.asked(ApiKey.HEARTBEAT, 4, {"group_id": "one"}))["error_code"] == 3


@anyhow
async def test_a_router_is_closed_with_its_connection() -> None:
    async with routed() as made:
        made.eu.answers = lambda *_: LIST_OFFSETS
        for number in range(2):
            client = await made.client()
            await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("orders"))
            router = made.routers[number]
            assert isinstance(router, ToRoute)
            assert not router.is_closed
            client.abort()
            await until(lambda router=router: router.is_closed)  # type: ignore[misc]


@anyhow
async def test_versions_are_those_that_the_router_and_all_routes_serve() -> None:
    serves = {ApiKey.LIST_OFFSETS: (3, 99), ApiKey.HEARTBEAT: (0, 2)}
    async with routed(serves=serves) as made:
        for leaf in made.runtime.leaves:
            node = leaf.nodes.known[0]
            await until(lambda node=node: node.versions is not None)  # type: ignore[misc]
            if leaf.path == "us":
                node.versions = {**(node.versions or {}), ApiKey.LIST_OFFSETS: Versions(1, 5, 6)}
        client = await made.client()
        listed = versions_in(await client.ask(ApiKey.API_VERSIONS, 0))
        assert set(listed) - set(LISTENER_TABLE) == {ApiKey.LIST_OFFSETS, ApiKey.HEARTBEAT}
        assert (listed[ApiKey.LIST_OFFSETS], listed[ApiKey.HEARTBEAT]) == ((3, 5), (0, 2))
        client.ask_tree(ApiKey.HEARTBEAT, 4, {"group_id": "one"})
        assert await client.rest() == b""


@anyhow
@pytest.mark.parametrize(("serves", "level"), [(None, 2), ({ApiKey.PRODUCE: (0, 11)}, 1)])
async def test_features_are_those_of_all_routes_as_far_as_their_versions_are_served(
    serves: Served | None, level: int
) -> None:
    async with routed(serves=serves) as made:
        for leaf, epoch in zip(made.runtime.leaves, (3, 5), strict=True):
            leaf.nodes.features = Features({}, {"transaction.version": Levels(2, 2)}, epoch)
        client = await made.client()
        software = {"client_software_name": "test", "client_software_version": "1"}
        told = await client.asked(ApiKey.API_VERSIONS, 4, software)
        assert told["finalized_features_epoch"] == 5
        assert [each["max_version_level"] for each in told["finalized_features"]] == [level]


@anyhow
async def test_a_node_of_no_route_is_not_there() -> None:
    async with routed() as made:
        assert made.runtime.accept(5 << 20).client.is_open is False


@anyhow
async def test_what_is_sent_to_a_node_is_received_by_it() -> None:
    class ToNode(Router):
        """Sends to the client's own node, or to the node whose id is the generation of a Heartbeat."""

        async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
            node = context.node or context.node_for_id(request.body["generation_id"])
            assert node is not None
            return Respond(await context.send(node, request))

    async with routed(ToNode) as made:
        made.eu.answers, made.us.answers = lambda *_: {"error_code": 27}, lambda *_: {"error_code": 22}
        member = {"group_id": "one", "member_id": "m"}
        for node, generation, error in ((EU_NODE, 0, 27), (US_NODE, 0, 22), (None, EU_NODE, 27), (None, US_NODE, 22)):
            client = await made.client(node)
            answer = await client.asked(ApiKey.HEARTBEAT, 4, {**member, "generation_id": generation})
            assert answer["error_code"] == error


@anyhow
async def test_the_identity_of_the_client() -> None:
    seen: list[tuple[str, Principal]] = []

    class Looks(Router):
        async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
            seen.append((context.session_id, context.principal))
            return context.error(request, 0)

    async with routed(Looks) as made:
        for _ in range(2):
            client = await made.client()
            await client.asked(ApiKey.HEARTBEAT, 4, {"group_id": "one"})
        (first, anonymous), (second, _) = seen
        assert first
        assert first != second
        assert anonymous == ANONYMOUS


@anyhow
async def test_a_stop_lets_answers_finish() -> None:
    gate = asyncio.Event()

    class Waits(Router):
        async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
            await gate.wait()
            return context.error(request, 27)

    async with routed(Waits) as made:
        idle, client = await made.client(), await made.client()
        client.ask_tree(ApiKey.HEARTBEAT, 4, {"group_id": "one"})
        await until(lambda: len(made.routers) == 1)
        made.runtime.begin_stop(30.0)
        assert await idle.rest() == b""
        gate.set()
        assert (await client.tree(ApiKey.HEARTBEAT, 4))["error_code"] == 27
        assert await client.rest() == b""
        await made.runtime.drained()


def test_a_request_can_be_changed() -> None:
    request = Request(ApiKey.HEARTBEAT, 4, {"group_id": "one"})
    assert replace(request, body={**request.body, "group_id": "two"}).body["group_id"] == "two"
