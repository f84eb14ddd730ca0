"""Judged requests: the part that is left, the part that is refused, and the answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from mesh.routing.guards.authorization import Judgement
from mesh.routing.guards.judging import judge
from mesh.security.principals import ANONYMOUS
from mesh.security.rules import Access, Operation, Permission, Refusal, ResourceType, Rule, Rules
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Names:
    """Names of topics by ids: the number of an id is its position here."""

    known = ("", "orders", "secret")

    def topic_name(self, topic_id: UUID, /) -> str | None:
        return self.known[topic_id.int] if topic_id.int < len(self.known) else None


def allow(resource_type: ResourceType, name: str, *operations: Operation) -> Rule:
    return Rule(
        principals=frozenset({ANONYMOUS}),
        operations=frozenset(operations),
        resource_type=resource_type,
        names=(name,),
    )


def access(*rules: Rule) -> Access:
    return Rules(rules).access(ANONYMOUS, "10.0.0.1")


def judged(api_key: ApiKey, version: int, request: Tree, *rules: Rule) -> Judgement:
    found = judge(api_key, version, request, access(*rules), Names())
    assert found is not None
    return found


def offsets(*names: str) -> Tree:
    return {"topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in names]}


def codes(topics: list[Tree]) -> dict[Any, set[int]]:
    return {each["name"]: {one["error_code"] for one in each["partitions"]} for each in topics}


def test_what_is_allowed_passes() -> None:
    orders = access(allow(TOPIC, "orders", READ))
    assert judge(ApiKey.LIST_OFFSETS, 5, offsets("orders"), orders, Names()) is None


def test_a_part_is_refused() -> None:
    found = judged(ApiKey.LIST_OFFSETS, 5, offsets("secret", "orders"), allow(TOPIC, "orders", READ))
    assert found.request == offsets("orders")
    assert found.refused is not None and codes(found.refused["topics"]) == {"secret": {REFUSED}}
    (refusal,) = found.refusals
    assert (refusal.operation, refusal.resource_type, refusal.name) == (DESCRIBE, TOPIC, "secret")


def test_of_what_is_refused_as_a_whole_nothing_is_left() -> None:
    found = judged(ApiKey.LIST_OFFSETS, 5, offsets("secret"), allow(TOPIC, "orders", READ))
    assert found.request is None and found.refused is not None


@pytest.mark.parametrize("api_key", [ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS])
def test_the_cluster_answers_about_a_group_also_if_all_topics_are_refused(api_key: ApiKey) -> None:
    group = allow(GROUP, "g", Operation.ALL)
    topic = {"topic_name": "secret", "partitions": [{"partition_index": 0, "start_offset": 0}]}
    found = judged(api_key, 0, {"group_id": "g", "topics": [topic]}, group)
    assert found.request == {"group_id": "g", "topics": []} and found.refused is not None


def test_a_group_that_is_refused_hides_its_topics() -> None:
    topics = [{"name": name, "partition_indexes": [0]} for name in ("orders", "secret")]
    request = {"groups": [{"group_id": name, "topics": topics} for name in ("mine", "other")]}
    found = judged(ApiKey.OFFSET_FETCH, 8, request, allow(GROUP, "mine", READ), allow(TOPIC, "orders", READ))
    assert found.request == {"groups": [{"group_id": "mine", "topics": topics[:1]}]}
    assert found.refused is not None
    mine, other = found.refused["groups"]
    assert codes(mine["topics"]) == {"secret": {REFUSED}} and "error_code" not in mine
    assert other["error_code"] == ErrorCode.GROUP_AUTHORIZATION_FAILED and "topics" not in other


def test_offsets_of_all_topics_are_those_of_topics_that_a_client_may_see() -> None:
    request = {"groups": [{"group_id": "mine", "topics": None}]}
    rules = allow(GROUP, "mine", READ), allow(TOPIC, "orders", READ)
    found = judged(ApiKey.OFFSET_FETCH, 8, request, *rules)
    assert found.request == request and found.complete is not None
    answer = {"groups": [{"group_id": "mine", "error_code": 0, "topics": [{"name": "orders"}, {"name": "secret"}]}]}
    assert found.complete(answer)["groups"][0]["topics"] == [{"name": "orders"}]
    by_id = [{"topic_id": UUID(int=number)} for number in (1, 2, 3)]
    answer = {"groups": [{"group_id": "mine", "error_code": 0, "topics": by_id}]}
    assert found.complete(answer)["groups"][0]["topics"] == by_id[:1]


def test_a_fetch_goes_on_without_a_session() -> None:
    partition = {"partition": 0, "fetch_offset": 0}
    asked = [{"topic_id": UUID(int=number), "partitions": [partition]} for number in (1, 2, 3)]
    request = {"session_id": 7, "session_epoch": 0, "topics": asked, "replica_state": {"replica_id": -1}}
    found = judged(ApiKey.FETCH, 15, request, allow(TOPIC, "orders", READ))
    assert found.request is not None and found.refused is not None
    assert (found.request["session_id"], found.request["session_epoch"]) == (0, -1)
    assert found.request["topics"] == asked[:1]
    told = [(each["topic_id"].int, each["partitions"][0]["error_code"]) for each in found.refused["responses"]]
    assert told == [(2, REFUSED), (3, ErrorCode.UNKNOWN_TOPIC_ID)]
    for session in ({"session_id": 0, "session_epoch": 0}, {"session_id": 7, "session_epoch": -1}):
        found = judged(ApiKey.FETCH, 15, {**request, **session, "topics": asked[:1]}, allow(TOPIC, "orders", READ))
        assert found.request is not None and found.refused is None
        assert (found.request["session_id"], found.request["session_epoch"]) == (0, -1)
    found = judged(ApiKey.FETCH, 15, {**request, "session_epoch": 1}, allow(TOPIC, "orders", READ))
    assert found.refused is not None and found.refused["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_none_of_the_partitions_are_added_if_one_is_refused() -> None:
    topics = [{"name": name, "partitions": [0]} for name in ("orders", "secret")]
    request = {"v3_and_below_transactional_id": "mine", "v3_and_below_topics": topics}
    rules = allow(TRANSACTION, "mine", WRITE), allow(TOPIC, "orders", WRITE)
    found = judged(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request, *rules)
    assert found.request is None and found.refused is not None
    told = {
        each["name"]: each["results_by_partition"][0]["partition_error_code"]
        for each in found.refused["results_by_topic_v3_and_below"]
    }
    assert told == {"orders": ErrorCode.OPERATION_NOT_ATTEMPTED, "secret": REFUSED}


def test_what_is_allowed_in_the_cluster_is_allowed_for_each() -> None:
    request: Tree = {"topics": [{"name": "new"}], "validate_only": True}
    found = judged(ApiKey.CREATE_TOPICS, 7, request, allow(CLUSTER, "kafka-cluster", Operation.CREATE))
    assert found.request == request and found.refused is None and found.complete is not None
    (topic,) = found.complete({"topics": [{"name": "new", "error_code": 0, "configs": [1], "num_partitions": 3}]})[
        "topics"
    ]
    assert topic["topic_config_error_code"] == REFUSED, "configurations are not told with it"
    assert (topic["configs"], topic["num_partitions"]) == ([], -1)


def test_producer_ids() -> None:
    request = {"transactional_id": None}
    assert judge(ApiKey.INIT_PRODUCER_ID, 4, request, access(allow(TOPIC, "orders", WRITE)), Names()) is None
    idempotent = access(allow(CLUSTER, "kafka-cluster", Operation.IDEMPOTENT_WRITE))
    assert judge(ApiKey.INIT_PRODUCER_ID, 4, request, idempotent, Names()) is None
    found = judged(ApiKey.INIT_PRODUCER_ID, 4, request, allow(TOPIC, "orders", READ))
    assert found.refused is not None and found.refused["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    found = judged(ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": "mine"}, allow(TOPIC, "orders", WRITE))
    assert found.refused is not None
    assert found.refused["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_resources_by_their_type() -> None:
    resources = [
        {"resource_type": kind, "resource_name": name}
        for kind, name in ((2, "orders"), (4, "1"), (32, "mine"), (99, "x"))
    ]
    found = judged(
        ApiKey.DESCRIBE_CONFIGS, 4, {"resources": resources}, allow(TOPIC, "orders", Operation.ALTER_CONFIGS)
    )
    assert found.request == {"resources": resources[:1]}
    assert found.refused is not None
    told = [(each["resource_type"], each["error_code"]) for each in found.refused["results"]]
    cluster = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert told == [(4, cluster), (32, ErrorCode.GROUP_AUTHORIZATION_FAILED), (99, cluster)]


def test_a_pattern_needs_all_topics() -> None:
    request = {"group_id": "mine", "subscribed_topic_names": None, "subscribed_topic_regex": "o.*"}
    group = allow(GROUP, "mine", READ)
    assert judge(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, access(group, allow(TOPIC, "*", READ)), Names()) is None
    found = judged(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, group, allow(TOPIC, "orders", READ))
    assert found.refused is not None and found.refused["error_code"] == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert found.refusals == (Refusal(DESCRIBE, TOPIC, "*"),)
    denied = Rule(
        principals=frozenset({ANONYMOUS}),
        permission=Permission.DENY,
        operations=frozenset({DESCRIBE}),
        resource_type=TOPIC,
        names=("secret",),
    )
    assert judge(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, access(group, allow(TOPIC, "*", READ), denied), Names())


def test_the_topics_of_a_topology() -> None:
    part: Tree = {
        "source_topics": ["orders"],
        "source_topic_regex": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "state_changelog_topics": [{"name": "app-changelog"}],
    }
    request = {"group_id": "mine", "topology": {"subtopologies": [part]}}
    rules = [allow(GROUP, "mine", READ), allow(TOPIC, "orders", READ)]
    found = judged(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request, *rules)
    assert [each.name for each in found.refusals] == ["app-changelog"]
    rules.append(allow(TOPIC, "app-changelog", READ))
    found = judged(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request, *rules)
    assert [(each.operation, each.name) for each in found.refusals] == [(Operation.CREATE, "app-changelog")]
    rules.append(allow(TOPIC, "app-changelog", Operation.CREATE))
    assert judge(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request, access(*rules), Names()) is None
    part["source_topic_regex"] = ["o.*"]
    found = judged(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request, *rules)
    assert found.refused is not None and found.refused["error_code"] == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert found.refusals == (Refusal(DESCRIBE, TOPIC, "*"),)


def test_lists_have_what_a_client_may_see() -> None:
    groups: Tree = {"groups": [{"group_id": "mine"}, {"group_id": "other"}]}
    found = judged(ApiKey.LIST_GROUPS, 4, {}, allow(GROUP, "mine", READ))
    assert found.complete is not None and found.complete(groups)["groups"] == groups["groups"][:1]
    found = judged(ApiKey.LIST_GROUPS, 4, {}, allow(CLUSTER, "kafka-cluster", DESCRIBE))
    assert found.complete is not None and found.complete(groups) == groups
    states: Tree = {"transaction_states": [{"transactional_id": "mine"}, {"transactional_id": "other"}]}
    found = judged(ApiKey.LIST_TRANSACTIONS, 0, {}, allow(TRANSACTION, "mine", WRITE))
    assert found.complete is not None
    assert found.complete(states)["transaction_states"] == states["transaction_states"][:1]


def test_topics_of_transactions() -> None:
    rules = allow(TRANSACTION, "mine", WRITE), allow(TOPIC, "orders", READ)
    found = judged(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["mine"]}, *rules)
    assert found.complete is not None
    state = {"transactional_id": "mine", "topics": [{"topic": "orders"}, {"topic": "secret"}]}
    told = found.complete({"transaction_states": [state, {"transactional_id": "gone", "topics": []}]})
    assert [each["topics"] for each in told["transaction_states"]] == [[{"topic": "orders"}], []]


def test_a_group_with_a_topic_that_a_client_must_not_see() -> None:
    def group(name: str, **more: Any) -> Tree:
        return {"group_id": name, "error_code": 0, "members": [], **more}

    def member(topic: str, key: str) -> Tree:
        return {"members": [{key: {"topic_partitions": [{"topic_name": topic}]}}]}

    part: Tree = {"source_topics": [], "repartition_sink_topics": [], "repartition_source_topics": []}
    groups = [
        group("1", **member("orders", "assignment")),
        group("2", **member("secret", "assignment")),
        group("3", **member("secret", "target_assignment")),
        group("4", topology={"subtopologies": [{**part, "state_changelog_topics": [{"name": "secret"}]}]}),
        group("5", topology=None),
    ]
    request = {"group_ids": ["1"], "include_authorized_operations": True}
    rules = allow(GROUP, "*", READ), allow(TOPIC, "orders", READ)
    found = judged(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, request, *rules)
    assert found.complete is not None
    assert list(found.later) == []
    told = found.complete({"groups": groups})["groups"]
    assert (found.refusals, list(found.later)) == ((), [Refusal(DESCRIBE, TOPIC, "secret")] * 3)
    assert [each["error_code"] for each in told] == [0, REFUSED, REFUSED, REFUSED, 0]
    assert ["members" in each for each in told] == [True, False, False, False, True]
    assert [each.get("authorized_operations") for each in told] == [1 << 3 | 1 << 8, None, None, None, 1 << 3 | 1 << 8]


def test_operations_on_the_cluster() -> None:
    asked = {"include_cluster_authorized_operations": True}
    answer: Tree = {"error_code": 0}
    found = judged(ApiKey.DESCRIBE_CLUSTER, 0, asked, allow(CLUSTER, "kafka-cluster", DESCRIBE, Operation.CREATE))
    assert found.complete is not None
    assert found.complete(answer)["cluster_authorized_operations"] == 1 << 5 | 1 << 8
    found = judged(ApiKey.DESCRIBE_CLUSTER, 0, asked)
    assert found.complete is not None and found.complete(answer)["cluster_authorized_operations"] == 0
    found = judged(ApiKey.DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": False})
    assert found.complete is not None and found.complete(answer) == answer


def test_directories_of_logs_are_refused_as_brokers_do() -> None:
    assert judged(ApiKey.DESCRIBE_LOG_DIRS, 1, {"topics": None}).refused == {}
    assert judged(ApiKey.DESCRIBE_LOG_DIRS, 3, {"topics": None}).refused == {"error_code": 31}
