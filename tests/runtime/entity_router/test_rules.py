"""A union under rules, between raw clients and brokers that act as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from mesh.security.principals import ANONYMOUS
from mesh.security.rules import Operation, PatternType, ResourceType, Rule, Rules
from mesh.wire.answer_walker import NODE_BITS
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.runtime.entity_router.harness import UnionWorld, topic, topic_id, union
from tests.runtime.relay.loops import anyhow

US = 1 << NODE_BITS
TOPIC_REFUSED, GROUP_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


def rule(resource_type: ResourceType, *names: str, to: Operation = Operation.READ, **more: Any) -> Rule:
    operations = frozenset({to})
    return Rule(
        principals=frozenset({ANONYMOUS}), operations=operations, resource_type=resource_type, names=names, **more
    )


ORDERS = rule(ResourceType.TOPIC, "orders", "us.orders")


@asynccontextmanager
async def under(*rules: Rule) -> AsyncIterator[UnionWorld]:
    """Both clusters have `orders` and `secret`; those of us have the prefix `us.`."""
    async with union() as made:
        made.listener.security.rules = Rules(rules)
        made.eu.topics = [topic("orders"), topic("secret")]
        made.us.topics = [topic("us.orders"), topic("us.secret")]
        yield made


def metadata(*names: str, **more: Any) -> Tree:
    return {"topics": [{"name": name} for name in names], **more}


def codes(answer: Tree) -> dict[str, int]:
    return {each["name"]: each["error_code"] for each in answer["topics"]}


def fetch(*topics: str, by_id: bool = False, **more: Any) -> Tree:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    asked = [
        ({"topic_id": topic_id(name)} if by_id else {"topic": name}) | {"partitions": [partition]} for name in topics
    ]
    return {"replica_id": -1, "session_id": 0, "session_epoch": -1, "topics": asked, **more}


def fetched(api_key: ApiKey, version: int, request: Tree) -> Tree:
    """The answer for every requested partition, and the session if one is wanted."""
    if api_key is not ApiKey.FETCH:
        return {}
    responses = [
        {
            **{key: each[key] for key in ("topic", "topic_id") if key in each},
            "partitions": [{"partition_index": 0, "error_code": 0, "high_watermark": 7, "records": b"records"}],
        }
        for each in request["topics"]
    ]
    return {"session_id": 5 if request.get("session_epoch") == 0 else 0, "responses": responses}


@anyhow
async def test_metadata_has_what_a_client_may_see() -> None:
    async with under(ORDERS) as made:
        client = await made.client()
        everything = await client.asked(ApiKey.METADATA, 12, {"topics": None})
        assert codes(everything) == {"orders": 0, "us.orders": 0}
        assert len(everything["brokers"]) == 2
        named = await client.asked(ApiKey.METADATA, 9, metadata("orders", "secret", "missing"))
        assert codes(named) == {"orders": 0, "secret": TOPIC_REFUSED, "missing": TOPIC_REFUSED}
        nothing = await client.asked(ApiKey.METADATA, 9, metadata("secret"))
        assert codes(nothing) == {"secret": TOPIC_REFUSED} and len(nothing["brokers"]) == 2
        for version in (0, 1):
            assert codes(await client.asked(ApiKey.METADATA, version, metadata("secret"))) == {"secret": TOPIC_REFUSED}


@anyhow
async def test_topics_by_their_ids() -> None:
    async with under(ORDERS) as made:
        client = await made.client()
        asked = {"topics": [{"name": None, "topic_id": topic_id(name)} for name in ("orders", "secret", "missing")]}
        for _ in range(2):  # the second time the ids are known
            answer = await client.asked(ApiKey.METADATA, 12, asked)
            found = {each["topic_id"]: (each["name"], each["error_code"]) for each in answer["topics"]}
            assert found == {
                topic_id("orders"): ("orders", 0),
                topic_id("secret"): (None, TOPIC_REFUSED),
                topic_id("missing"): (None, ErrorCode.UNKNOWN_TOPIC_ID),
            }


@anyhow
async def test_only_a_client_that_may_create_topics_creates_them_by_asking() -> None:
    describes = rule(ResourceType.TOPIC, "new", to=Operation.DESCRIBE, pattern_type=PatternType.PREFIXED)
    async with under(describes, rule(ResourceType.TOPIC, "new.mine", to=Operation.CREATE)) as made:
        client = await made.client()
        made.eu.asked.clear()
        await client.asked(ApiKey.METADATA, 9, metadata("new.mine", "new.other", allow_auto_topic_creation=True))
        creating = {
            each["name"]: request["allow_auto_topic_creation"]
            for request in made.eu.asked
            for each in request["topics"] or ()
        }
        assert creating == {"new.mine": True, "new.other": False}


@anyhow
async def test_operations_are_those_of_the_rules() -> None:
    async with under(ORDERS, rule(ResourceType.CLUSTER, "kafka-cluster", to=Operation.DESCRIBE)) as made:
        client = await made.client()
        wanted = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
        answer = await client.asked(ApiKey.METADATA, 9, metadata("orders", "secret", **wanted))
        operations = {each["name"]: each["topic_authorized_operations"] for each in answer["topics"]}
        assert operations == {"orders": 1 << 3 | 1 << 8, "secret": -(2**31)}
        assert answer["cluster_authorized_operations"] == 1 << 8
        everything = await client.asked(ApiKey.METADATA, 9, {"topics": None, **wanted})
        operations = {each["name"]: each["topic_authorized_operations"] for each in everything["topics"]}
        assert operations == {"orders": 1 << 3 | 1 << 8, "us.orders": 1 << 3 | 1 << 8}


@anyhow
async def test_a_fetch_of_what_is_allowed_passes_without_a_session() -> None:
    async with under(ORDERS) as made:
        made.eu.answers = fetched
        client = await made.client(0)
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        for version in (4, 11, 12, 13, 17):
            made.eu.seen.clear()
            answer = await client.asked(ApiKey.FETCH, version, fetch("orders", by_id=version > 12, session_epoch=0))
            assert answer["responses"][0]["partitions"][0]["records"] == b"records"
            assert answer.get("session_id", 0) == 0
            ((_, seen),) = made.eu.seen
            assert seen.get("session_epoch", -1) == -1
        answer = await client.asked(ApiKey.FETCH, 12, fetch(session_id=5, session_epoch=1))
        assert answer["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("refused", [(), ("secret",)])
@pytest.mark.parametrize("node", [0, US])
@pytest.mark.parametrize("version", [4, 11, 12, 13, 17])
@anyhow
async def test_a_topic_that_was_not_asked_for_passes_in_no_answer(
    version: int, node: int, refused: Sequence[str]
) -> None:
    """A broker that reads more in a Fetch than the mesh does. refused: with such topics the mesh answers a Fetch
    itself."""

    def with_another(api_key: ApiKey, version: int, request: Tree) -> Tree:
        another = fetch("us.hidden" if node else "hidden", by_id=version > 12)["topics"]
        return fetched(api_key, version, {**request, "topics": [*request.get("topics", ()), *another]})

    async with under(ORDERS) as made:
        (made.us if node else made.eu).answers = fetched
        client = await made.client(node)
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        prefix = "us." if node else ""
        asked = fetch(*(prefix + each for each in ("orders", *refused)), by_id=version > 12)
        assert len((await client.asked(ApiKey.FETCH, version, asked))["responses"]) == 1 + len(refused)
        (made.us if node else made.eu).answers = with_another
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.asked(ApiKey.FETCH, version, asked)


def share_fetch(epoch: int, *more: str) -> Tree:
    """The first request of a session asks for `orders`."""
    topics = ["orders", *more] if epoch == 0 else []
    asked = [{"topic_id": topic_id(each), "partitions": [{"partition_index": 0}]} for each in topics]
    return {"group_id": "g", "member_id": "m", "share_session_epoch": epoch, "topics": asked}


@pytest.mark.parametrize("refused", [(), ("secret",)])
@pytest.mark.parametrize("epoch", [0, 1, 2, -1])
@pytest.mark.parametrize("version", [1, 2])
@anyhow
async def test_a_topic_that_a_share_session_never_asked_for_passes_in_no_answer(
    version: int, epoch: int, refused: Sequence[str]
) -> None:
    told: list[str] = []

    def shared(api_key: ApiKey, version: int, request: Tree) -> Tree:
        if api_key is not ApiKey.SHARE_FETCH:
            return {}
        partition = {"partition_index": 0, "records": b"records", "acquired_records": []}
        return {"responses": [{"topic_id": topic_id(each), "partitions": [partition]} for each in told]}

    async with under(ORDERS, rule(ResourceType.GROUP, "g")) as made:
        made.eu.topics.append(topic("hidden"))
        made.eu.answers = shared
        client = await made.client(0)
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        for before in range(epoch if epoch >= 0 else 2):
            told[:] = ["orders"]
            answer = await client.asked(ApiKey.SHARE_FETCH, version, share_fetch(before, *refused))
            assert [each["topic_id"] for each in answer["responses"]] == [topic_id("orders"), *map(topic_id, refused)]
        told[:] = ["orders", "hidden"]
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.asked(ApiKey.SHARE_FETCH, version, share_fetch(epoch, *refused))


@anyhow
async def test_what_is_refused_of_a_fetch_is_answered_in_its_place() -> None:
    async with under(ORDERS) as made:
        made.eu.answers = fetched
        client = await made.client(0)
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        answer = await client.asked(ApiKey.FETCH, 11, fetch("secret", "orders", "us.orders", session_epoch=0))
        found = {each["topic"]: each["partitions"][0]["error_code"] for each in answer["responses"]}
        assert found == {"secret": TOPIC_REFUSED, "orders": 0, "us.orders": ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert list(found) == ["secret", "orders", "us.orders"]
        answer = await client.asked(ApiKey.FETCH, 13, fetch("secret", "orders", "unheard", by_id=True))
        found = {each["topic_id"]: each["partitions"][0]["error_code"] for each in answer["responses"]}
        assert found == {
            topic_id("secret"): TOPIC_REFUSED,
            topic_id("orders"): 0,
            topic_id("unheard"): ErrorCode.UNKNOWN_TOPIC_ID,
        }
        answer = await client.asked(ApiKey.FETCH, 11, fetch("orders", replica_id=1))
        assert answer["responses"][0]["partitions"][0]["error_code"] == TOPIC_REFUSED, "followers need CLUSTER_ACTION"


@anyhow
async def test_rules_that_change_count_for_the_next_request() -> None:
    async with under(ORDERS) as made:
        made.eu.answers = fetched
        client = await made.client(0)
        assert (await client.asked(ApiKey.FETCH, 11, fetch("orders")))["responses"][0]["partitions"][0][
            "error_code"
        ] == 0
        made.listener.security.rules = Rules()
        made.listener.rules_changed()
        answer = await client.asked(ApiKey.FETCH, 11, fetch("orders"))
        assert answer["responses"][0]["partitions"][0]["error_code"] == TOPIC_REFUSED


@anyhow
async def test_refusals_are_told_to_operators() -> None:
    async with under(ORDERS) as made:
        client = await made.client()
        with capture_logs() as logs:
            await client.asked(ApiKey.METADATA, 9, metadata("secret"))
            await client.asked(ApiKey.HEARTBEAT, 0, {"group_id": "billing", "member_id": "m"})
        assert denied(logs) == [
            ("METADATA", "DESCRIBE", "secret", "test"),
            ("HEARTBEAT", "READ", "billing", "test"),
        ]


@anyhow
async def test_each_kind_of_refusal_is_told() -> None:
    """Also that of a pattern, and that of a group for its topics, which only the answer shows."""
    group = rule(ResourceType.GROUP, "billing")
    async with under(ORDERS, group) as made:
        member = {"assignment": {"topic_partitions": [{"topic_name": "secret"}]}, "target_assignment": None}
        made.eu.answers = lambda api_key, version, request: {
            "groups": [{"group_id": "billing", "error_code": 0, "members": [member]}]
        }
        client = await made.client(0)
        heartbeat = {"group_id": "billing", "member_id": "m", "subscribed_topic_regex": "o.*"}
        with capture_logs() as logs:
            answer = await client.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat)
            described = await client.asked(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": ["billing"]})
        assert answer["error_code"] == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert [each["error_code"] for each in described["groups"]] == [TOPIC_REFUSED]
        assert denied(logs) == [
            ("CONSUMER_GROUP_HEARTBEAT", "DESCRIBE", "*", "test"),
            ("CONSUMER_GROUP_DESCRIBE", "DESCRIBE", "secret", "test"),
        ]


def denied(logs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """The refusals in the log: API, operation, resource and client id."""
    entries = [each for each in logs if each["event"] == "request denied"]
    return [(each["api"], each["operation"], each["resource"], each["client_id"]) for each in entries]


def produce(*topics: str, acks: int = -1, **more: Any) -> Tree:
    data = [{"name": name, "partition_data": [{"index": 0, "records": b"records"}]} for name in topics]
    return {"acks": acks, "timeout_ms": 1_000, "transactional_id": None, "topic_data": data, **more}


def stored(api_key: ApiKey, version: int, request: Tree) -> Tree:
    """The answer for every partition of a Produce."""
    topics = request.get("topic_data", ())
    return {
        "responses": [
            {"name": each["name"], "partition_responses": [{"index": 0, "base_offset": 7}]} for each in topics
        ]
    }


WRITES = rule(ResourceType.TOPIC, "orders", "us.orders", to=Operation.WRITE)


@anyhow
async def test_what_is_left_of_a_produce_is_written_in_its_order() -> None:
    async with under(WRITES) as made:
        made.eu.answers = stored
        client = await made.client(0)
        for number, topics in enumerate((("orders",), ("secret", "orders", "us.orders"), ("orders",), ("secret",))):
            client.ask_tree(ApiKey.PRODUCE, 9, produce(*topics, timeout_ms=number), number)
        found = [await client.tree(ApiKey.PRODUCE, 9, number) for number in range(4)]
        told = [
            [(each["name"], each["partition_responses"][0]["error_code"]) for each in answer["responses"]]
            for answer in found
        ]
        assert told == [
            [("orders", 0)],
            [("secret", TOPIC_REFUSED), ("orders", 0), ("us.orders", ErrorCode.NOT_LEADER_OR_FOLLOWER)],
            [("orders", 0)],
            [("secret", TOPIC_REFUSED)],
        ]
        seen = [
            (request["timeout_ms"], [each["name"] for each in request["topic_data"]]) for _, request in made.eu.seen
        ]
        assert seen == [(0, ["orders"]), (1, ["orders"]), (2, ["orders"])]
        assert made.us.seen == []


@anyhow
async def test_a_produce_without_acks_that_is_refused_closes_the_connection() -> None:
    async with under(WRITES) as made:
        client = await made.client(0)
        with capture_logs() as logs:
            client.ask_tree(ApiKey.PRODUCE, 9, produce("orders", "secret", "hidden", acks=0))
            assert await client.rest() == b""
        assert made.eu.seen == []
        assert denied(logs) == [("PRODUCE", "WRITE", "secret", "test"), ("PRODUCE", "WRITE", "hidden", "test")]


@anyhow
async def test_a_transaction_needs_its_id() -> None:
    mine = rule(ResourceType.TRANSACTIONAL_ID, "mine", to=Operation.WRITE)
    async with under(WRITES, mine) as made:
        made.eu.answers = stored
        client = await made.client(0)
        for name, code in (("mine", 0), ("other", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)):
            answer = await client.asked(ApiKey.PRODUCE, 9, produce("orders", transactional_id=name))
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == code


@anyhow
async def test_pages_of_topics_have_what_a_client_may_see() -> None:
    async with under(ORDERS) as made:
        for cluster in (made.eu, made.us):
            cluster.answers = lambda api_key, version, request: {
                "topics": [
                    {**each, "error_code": 0, "partitions": [{"partition_index": 0}]} for each in request["topics"]
                ]
            }
        client = await made.client()
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        asked = {"topics": [], "response_partition_limit": 10, "cursor": None}
        everything = await client.asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, asked)
        assert codes(everything) == {"orders": 0, "us.orders": 0}
        named = {**asked, "topics": [{"name": "secret"}, {"name": "orders"}]}
        answer = await client.asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, named)
        assert codes(answer) == {"orders": 0, "secret": TOPIC_REFUSED}
        operations = {each["name"]: each["topic_authorized_operations"] for each in answer["topics"]}
        assert operations == {"orders": 1 << 3 | 1 << 8, "secret": -(2**31)}


@anyhow
async def test_super_users_pass_with_their_sessions() -> None:
    async with under() as made:
        made.listener.security.rules = Rules(super_users=frozenset({ANONYMOUS}))
        made.eu.answers = fetched
        client = await made.client(0)
        answer = await client.asked(ApiKey.FETCH, 11, fetch("secret", session_epoch=0))
        assert answer["session_id"] == 5


@anyhow
async def test_an_id_that_nobody_has_asked_about_is_looked_for() -> None:
    """After a restart clients go on with ids that they know."""
    async with under(ORDERS) as made:
        made.eu.answers = fetched
        client = await made.client(0)
        answer = await client.asked(ApiKey.FETCH, 13, fetch("orders", "secret", by_id=True, session_epoch=0))
        found = {each["topic_id"]: each["partitions"][0]["error_code"] for each in answer["responses"]}
        assert found == {topic_id("orders"): 0, topic_id("secret"): TOPIC_REFUSED}
    async with under(WRITES) as made:
        made.eu.answers = lambda api_key, version, request: {
            "responses": [{**each, "partition_responses": [{"index": 0}]} for each in request["topic_data"]]
        }
        client = await made.client(0)
        asked = produce("orders")
        asked["topic_data"][0]["topic_id"] = topic_id("orders")
        answer = await client.asked(ApiKey.PRODUCE, 13, asked)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
