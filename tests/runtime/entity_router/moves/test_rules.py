"""A topic is moved under clients with limited rights: rules use the names that clients see."""

from __future__ import annotations

import asyncio

from mesh.security.rules import Operation, ResourceType, Rules
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.routing.moves.test_copying import batch
from tests.runtime.entity_router.harness import UnionClient, topic_id
from tests.runtime.entity_router.moves.test_moves import ID, TO_US, US, fetch, moved, offset_of, ready, told
from tests.runtime.entity_router.moves.world import MoveWorld, moving
from tests.runtime.entity_router.test_rules import rule
from tests.runtime.relay.loops import anyhow, until

REFUSED, ELSEWHERE = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_LEADER_OR_FOLLOWER
NAMES = ("orders", "secret")
RULES = Rules(
    (
        rule(ResourceType.TOPIC, "orders"),
        rule(ResourceType.TOPIC, "orders", to=Operation.WRITE),
        rule(ResourceType.GROUP, "billing"),
    )
)


async def ruled(made: MoveWorld) -> None:
    """Clients may read and write orders, but not secret, which eu has, too."""
    made.eu.create("secret")
    await ready(made)
    made.union.listener.security.rules = RULES


async def produced(client: UnionClient, version: int, *names: str) -> dict[str, int]:
    """The error of each topic."""
    data = [
        {"name": name, "topic_id": topic_id(name), "partition_data": [{"index": 0, "records": batch(0)}]}
        for name in names
    ]
    answer = await client.asked(ApiKey.PRODUCE, version, {"acks": -1, "timeout_ms": 100, "topic_data": data})
    return codes(answer["responses"], "partition_responses")


async def fetched(client: UnionClient, version: int, *names: str) -> dict[str, int]:
    request = fetch(0)
    (topic,) = request["topics"]
    asked = [{**topic, "topic": name, "topic_id": topic_id(name)} for name in names]
    answer = await client.asked(ApiKey.FETCH, version, {**request, "topics": asked})
    return codes(answer["responses"], "partitions")


def codes(topics: list[Tree], partitions: str) -> dict[str, int]:
    ids = {topic_id(name): name for name in NAMES}
    return {
        each.get("name") or each.get("topic") or ids[each["topic_id"]]: each[partitions][0]["error_code"]
        for each in topics
    }


@anyhow
async def test_who_may_use_a_topic_may_use_it_where_it_has_gone() -> None:
    async with moving() as made:
        await ruled(made)
        at_eu, at_us = await made.union.client(0), await made.union.client(US)
        for version in (9, 13):
            assert await produced(at_eu, version, *NAMES) == {"orders": 0, "secret": REFUSED}
        await moved(made)
        found = await told(made)
        assert (found["topic_id"], found["partitions"][0]["leader_id"]) == (ID, US)
        everything = await at_us.asked(ApiKey.METADATA, 12, {"topics": None})
        assert [each["name"] for each in everything["topics"]] == ["orders"]
        for version in (9, 13):
            assert await produced(at_eu, version, *NAMES) == {"orders": ELSEWHERE, "secret": REFUSED}
            assert await produced(at_us, version, *NAMES) == {"orders": 0, "secret": REFUSED}
            assert await produced(at_us, version, "orders") == {"orders": 0}
        for version in (11, 13, 18):
            assert await fetched(at_eu, version, *NAMES) == {"orders": ELSEWHERE, "secret": REFUSED}
            assert await fetched(at_us, version, *NAMES) == {"orders": 0, "secret": REFUSED}
            assert await fetched(at_us, version, "orders") == {"orders": 0}


@anyhow
async def test_who_may_not_use_a_topic_may_not_use_it_where_it_has_gone() -> None:
    async with moving() as made:
        await ruled(made)
        await moved(made)
        made.union.listener.security.rules = Rules((rule(ResourceType.TOPIC, "secret", "us.orders"),))
        client = await made.union.client(US)
        assert (await told(made))["error_code"] == REFUSED
        for version in (9, 13):
            assert await produced(client, version, "orders") == {"orders": REFUSED}
        for version in (11, 13):
            assert await fetched(client, version, "orders") == {"orders": REFUSED}


@anyhow
async def test_what_rules_have_left_of_a_request_is_held_during_the_cut() -> None:
    async with moving() as made:
        await ruled(made)
        client = await made.union.client(0)
        await made.moves.begin(TO_US)
        made.store.puts_fail = 1_000_000
        await until(lambda: made.gate.has_any)
        held = asyncio.get_running_loop().create_task(produced(client, 13, *NAMES))
        await asyncio.wait([held], timeout=0.05)
        assert not held.done()
        made.store.puts_fail = 0
        assert await held == {"orders": ELSEWHERE, "secret": REFUSED}
        assert made.us.logs["orders"] == made.eu.logs["orders"]


@anyhow
async def test_the_cut_waits_for_what_rules_have_left_of_a_request() -> None:
    """The request is in flight over a separate connection, and its broker never answers."""
    async with moving(hold=0.1) as made:
        await ruled(made)
        client, came = await made.union.client(0), asyncio.Event()

        def holds_back(api_key: ApiKey) -> bool:
            if api_key is ApiKey.PRODUCE:
                came.set()
            return api_key is ApiKey.PRODUCE

        made.eu.holds_back = holds_back
        under_way = asyncio.get_running_loop().create_task(produced(client, 13, *NAMES))
        await came.wait()
        await made.moves.begin(TO_US)
        (mover,) = made.moves.movers
        await until(lambda: mover.problem == "clients were held for too long")
        under_way.cancel()


@anyhow
async def test_offsets_of_groups_that_a_client_may_not_see() -> None:
    async with moving() as made:
        await ruled(made)
        made.eu.offsets = {("billing", "orders"): 4}
        await moved(made)
        assert await offset_of(made, "billing", 8) == 4
