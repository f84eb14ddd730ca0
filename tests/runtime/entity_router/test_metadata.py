"""The Metadata of a union over clusters that answer, are late, or are down."""

from __future__ import annotations

from mesh.routing.metadata import KnownLeaf
from mesh.routing.node_ids import NODE_BITS
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.routing.unions import RENAMED
from tests.runtime.entity_router.harness import UnionWorld, topic, topic_id, union
from tests.runtime.relay.loops import anyhow

US = 1 << NODE_BITS
ALL: Tree = {"topics": None}


def named(*names: str) -> Tree:
    return {"topics": [{"name": name} for name in names]}


def leaders(answer: Tree) -> dict[str, list[int]]:
    return {each["name"]: [one["leader_id"] for one in each["partitions"]] for each in answer["topics"]}


def addresses(made: UnionWorld, answer: Tree) -> None:
    assert {each["node_id"]: each["port"] for each in answer["brokers"]} == {id: made.ports[id] for id in (0, US)}
    assert {each["host"] for each in answer["brokers"]} == {"127.0.0.1"}


@anyhow
async def test_the_topics_and_nodes_of_all_clusters() -> None:
    async with union() as made:
        made.eu.topics = [topic("orders", 2), topic("us.not-its-own")]
        made.us.topics = [topic("us.orders"), topic("orders")]
        for node in (None, 0, US):
            client = await made.client(node)
            for version in (1, 4, 12, 13):
                answer = await client.asked(ApiKey.METADATA, version, ALL)
                assert leaders(answer) == {"orders": [0, 0], "us.orders": [US]}
                addresses(made, answer)
                assert answer["controller_id"] == 0
                assert answer.get("cluster_id", "id of the union") == "id of the union"


@anyhow
async def test_names_that_are_stripped() -> None:
    async with union(RENAMED) as made:
        made.eu.topics, made.us.topics = [topic("orders")], [topic("orders", 3)]
        client = await made.client()
        assert leaders(await client.asked(ApiKey.METADATA, 12, ALL)) == {"orders": [0], "us.orders": [US] * 3}
        answer = await client.asked(ApiKey.METADATA, 12, named("us.orders", "us.", "orders"))
        assert leaders(answer) == {"orders": [0], "us.orders": [US] * 3, "us.": []}
        assert {each["name"]: each["error_code"] for each in answer["topics"]} == {
            "orders": 0,
            "us.orders": 0,
            "us.": 3,
        }


@anyhow
async def test_a_topic_is_asked_for_at_its_owner_only() -> None:
    async with union() as made:
        client = await made.client()
        await client.asked(ApiKey.METADATA, 12, {**named("us.new"), "allow_auto_topic_creation": True})
        assert [each for each in made.eu.asked if each["topics"]] == []
        (request,) = (each for each in made.us.asked if each["topics"])
        assert [each["name"] for each in request["topics"]] == ["us.new"]
        assert request["allow_auto_topic_creation"]


@anyhow
async def test_topic_ids_of_any_cluster() -> None:
    async with union(RENAMED) as made:
        made.eu.topics, made.us.topics = [topic("orders"), topic("us.hidden")], [topic("payments")]
        client = await made.client()
        ids = [topic_id(name) for name in ("payments", "orders", "us.hidden", "nowhere")]
        for name in (None, ""):  # the Java client sends the second
            request: Tree = {"topics": [{"name": name, "topic_id": id} for id in ids]}
            answer = await client.asked(ApiKey.METADATA, 12, request)
            assert [(each["name"], each["error_code"], each["topic_id"]) for each in answer["topics"]] == [
                ("us.payments", 0, ids[0]),
                ("orders", 0, ids[1]),
                (None, 100, ids[2]),
                (None, 100, ids[3]),
            ]


@anyhow
async def test_a_cluster_that_is_down_keeps_its_topics_listed() -> None:
    async with union() as made:
        made.eu.topics, made.us.topics = [topic("orders")], [topic("us.orders", 2)]
        client = await made.client()
        await client.asked(ApiKey.METADATA, 12, ALL)
        await made.us.stop()
        for request in (ALL, named("us.orders", "orders")):
            answer = await client.asked(ApiKey.METADATA, 12, request)
            assert leaders(answer) == {"orders": [0], "us.orders": [-1, -1]}
            (lost,) = (each for each in answer["topics"] if each["name"] == "us.orders")
            assert (lost["error_code"], [each["error_code"] for each in lost["partitions"]]) == (0, [5, 5])
            addresses(made, answer)
        answer = await client.asked(ApiKey.METADATA, 12, named("us.unheard"))
        assert [each["error_code"] for each in answer["topics"]] == [5]
        await made.us.start()
        while leaders(await client.asked(ApiKey.METADATA, 12, ALL))["us.orders"] != [US, US]:
            pass


@anyhow
async def test_what_has_not_changed_is_not_read_again() -> None:
    async with union() as made:
        made.us.topics = [topic("us.orders")]
        client = await made.client()
        await client.asked(ApiKey.METADATA, 12, ALL)
        kept = made.metadata._last[made.leaves.default.number]
        again = await client.asked(ApiKey.METADATA, 12, ALL)
        assert made.metadata._last[made.leaves.default.number] is kept
        made.us.topics = [topic("us.orders", 2)]
        changed = await client.asked(ApiKey.METADATA, 12, ALL)
        assert (leaders(again), leaders(changed)) == ({"us.orders": [US]}, {"us.orders": [US, US]})


@anyhow
async def test_a_broker_that_does_not_know_a_topic_yet_does_not_hide_it_for_long() -> None:
    async with union(RENAMED) as made:
        made.us.topics = [topic("payments")]
        client = await made.client()
        await client.asked(ApiKey.METADATA, 12, ALL)
        kept, made.us.topics = made.us.topics, []
        late = await client.asked(ApiKey.METADATA, 12, named("us.payments"))
        assert [each["error_code"] for each in late["topics"]] == [3]
        made.us.topics = kept
        for version in (12, 11):
            assert leaders(await client.asked(ApiKey.METADATA, version, ALL)) == {"us.payments": [US]}
        assert made.metadata.topics() == ["us.payments"]
        assert made.metadata.topic_of_id(topic_id("payments")) == "us.payments"


def test_a_list_made_while_a_topic_was_unknown_is_not_kept() -> None:
    """The second request for all topics waits for eu, and meanwhile a broker of us does not know the topic."""
    known = KnownLeaf()
    every: Tree = {"brokers": [], "topics": [{"name": "payments", "error_code": 0, "partitions": []}]}
    known.take(every, is_all=True)
    unknown: Tree = {"name": "payments", "error_code": 3, "partitions": []}
    known.take({"brokers": [], "topics": [unknown]}, is_all=False)
    assert known.encoded_topics(12, known.topics.values()).count == 0
    assert not known.encoded_each(12, known.topics.values())
    known.take(every, is_all=True)
    assert known.encoded_topics(12, known.topics.values()).count == 1
    assert [*known.encoded_each(12, known.topics.values())] == ["payments"]


def test_the_same_answer_by_name_leaves_the_list_encoded() -> None:
    known = KnownLeaf()
    every: Tree = {"brokers": [], "topics": [{"name": "payments", "error_code": 0, "partitions": []}]}
    known.take(every, is_all=True)
    encoded = known.encoded_topics(12, known.topics.values())
    known.take({"brokers": [], "topics": [dict(each) for each in every["topics"]]}, is_all=False)
    known.take({"brokers": [], "topics": [{"name": "none", "error_code": 3, "partitions": []}]}, is_all=False)
    known.take(every, is_all=True)
    assert known.encoded_topics(12, known.topics.values()) is encoded
