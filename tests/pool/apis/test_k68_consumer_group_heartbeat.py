from __future__ import annotations

from typing import Any

import pytest

from mesh.pool.groups.consumer_protocol import SESSION_TIMEOUT
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, fetch_values, joined, member_of, values_of, versions
from tests.pool.harness import EU, GROUP, ORDERS

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT


def values(**changes: Any) -> dict[str, Any]:
    """The heartbeat of a member that joins."""
    return {
        "group_id": GROUP,
        "member_id": "m-1",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": (ORDERS,),
        "topic_partitions": (),
        **changes,
    }


def later(epoch: int, **changes: Any) -> dict[str, Any]:
    """The heartbeat of a member that goes on as before."""
    unchanged = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
    return values(member_epoch=epoch, **{**unchanged, **changes})


def beat(client: Client, version: int = 1, **changes: Any) -> Any:
    return client.ask(HEARTBEAT, version, **values(**changes))


def consumer(mesh: Mesh, member_id: str = "m-1", **changes: Any) -> Client:
    client = Client(mesh)
    answer = beat(client, member_id=member_id, **changes)
    assert answer.error_code == 0
    client.member_id, client.generation = answer.member_id, answer.member_epoch
    return client


def assigned(answer: Any) -> dict[Any, tuple[int, ...]] | None:
    if answer.assignment is None:
        return None
    return {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}


def everything(mesh: Mesh, partitions: int = 4) -> dict[Any, tuple[int, ...]]:
    return {mesh.cluster.topics.topic_id(ORDERS): tuple(range(partitions))}


@pytest.mark.parametrize("version", versions(HEARTBEAT))
def test_a_life(version: int) -> None:
    mesh = Mesh()
    client = Client(mesh)
    answer = beat(client, version)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m-1", 1)
    assert answer.heartbeat_interval.total_seconds() == 3.0
    assert assigned(answer) == everything(mesh)
    client.member_id, client.generation = "m-1", 1

    (start, *_) = client.positions().values()
    asked = client.send(ApiKey.FETCH, 13, **fetch_values(mesh, {0: start}))
    mesh.produce(0, count=3)
    (topic,) = client.answer(asked).responses
    assert len(values_of(topic.partitions[0].records)) == 3
    committed = client.ask(ApiKey.OFFSET_COMMIT, 9, **client.commit_values({0: start + 3}))
    assert committed.topics[0].partitions[0].error_code == 0
    assert client.positions()[0] == start + 3

    answer = client.ask(HEARTBEAT, version, **later(1))
    assert (answer.error_code, answer.member_epoch, assigned(answer)) == (0, 1, None)
    answer = client.ask(HEARTBEAT, version, **later(-1))
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    assert not mesh.pool.members.by_id


def test_v0_gives_an_id_and_v1_wants_one() -> None:
    mesh = Mesh()
    answer = beat(Client(mesh), 0, member_id="")
    assert answer.error_code == 0
    assert list(mesh.pool.members.by_id) == [answer.member_id] != [""]
    assert beat(Client(mesh), 1, member_id="").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": ({"topic_id": None, "partitions": (0,)},)}, None),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 5}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"server_assignor": "range"}, None),
        ({"subscribed_topic_regex": "ord.*"}, None),
        ({"subscribed_topic_regex": "ord.*", "subscribed_topic_names": None}, None),
        ({"subscribed_topic_regex": ""}, None),
        ({"subscribed_topic_regex": "", "subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(?=ord).*"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "\\d{1000}{1000}"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "o" * 1_024}, None),
        ({"subscribed_topic_regex": "o" * 1_025}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(?:[a-z.]?){1000}z"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_what_is_refused(changes: dict[str, Any], error: ErrorCode | None) -> None:
    answer = beat(Client(Mesh()), **changes)
    assert answer.error_code == (error or ErrorCode.NONE)
    if error is ErrorCode.INVALID_REGULAR_EXPRESSION:
        assert "regular expression" in answer.error_message


def test_new_partitions_raise_the_epoch() -> None:
    mesh = Mesh()
    client = consumer(mesh)
    mesh.do(mesh.cluster.topics_changed(EU, {ORDERS: 3}, mesh.now))
    answer = client.ask(HEARTBEAT, 1, **later(1))
    assert (answer.member_epoch, assigned(answer)) == (2, everything(mesh, 5))
    # The answer was lost: its client repeats everything, at the epoch that it knows.
    owned = ({"topic_id": mesh.cluster.topics.topic_id(ORDERS), "partitions": (0, 1, 2, 3)},)
    answer = client.ask(HEARTBEAT, 1, **values(member_epoch=1, topic_partitions=owned))
    assert (answer.error_code, answer.member_epoch, assigned(answer)) == (0, 2, everything(mesh, 5))
    assert client.ask(HEARTBEAT, 1, **later(1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    too_much = ({"topic_id": mesh.cluster.topics.topic_id(ORDERS), "partitions": (5,)},)
    refused = client.ask(HEARTBEAT, 1, **values(member_epoch=1, topic_partitions=too_much))
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("pattern", [".*", "ord.*", "^orders$", "(^orders$|^invoices$)", "o[a-z]+s"])
def test_a_regular_expression_stands_for_the_topics_whose_whole_names_match(pattern: str) -> None:
    mesh = Mesh()
    answer = beat(Client(mesh), subscribed_topic_regex=pattern, subscribed_topic_names=())
    assert (answer.error_code, assigned(answer)) == (0, everything(mesh))


@pytest.mark.parametrize("pattern", ["order", "rders", "payments.*", "Orders", "^$"])
def test_a_regular_expression_that_matches_nothing(pattern: str) -> None:
    answer = beat(Client(Mesh()), subscribed_topic_regex=pattern, subscribed_topic_names=())
    assert (answer.error_code, assigned(answer)) == (0, {})


def test_topics_that_come_later_match_as_well_and_a_pattern_can_be_given_up() -> None:
    mesh = Mesh()
    client = consumer(mesh, subscribed_topic_regex="ord.*|pay.*", subscribed_topic_names=())
    mesh.do(mesh.cluster.topics_changed(EU, {ORDERS: 3}, mesh.now))
    answer = client.ask(HEARTBEAT, 1, **later(1))
    assert (answer.member_epoch, assigned(answer)) == (2, everything(mesh, 5))
    answer = client.ask(HEARTBEAT, 1, **later(2))
    assert (answer.member_epoch, assigned(answer)) == (2, None)
    answer = client.ask(HEARTBEAT, 1, **later(2, subscribed_topic_regex="pay.*"))
    assert (answer.member_epoch, assigned(answer)) == (3, {})
    answer = client.ask(HEARTBEAT, 1, **later(3, subscribed_topic_regex="", subscribed_topic_names=(ORDERS,)))
    assert (answer.member_epoch, assigned(answer)) == (4, everything(mesh, 5))


def test_a_member_that_lost_records_joins_again_with_its_pattern() -> None:
    mesh = Mesh()
    client = consumer(mesh, subscribed_topic_regex="ord.*", subscribed_topic_names=())
    mesh.pool.coordinator.ask_to_join_again(member_of(mesh, client).id)
    assert client.ask(HEARTBEAT, 1, **later(1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    answer = beat(client, subscribed_topic_regex="ord.*", subscribed_topic_names=())
    assert (answer.error_code, answer.member_epoch, assigned(answer)) == (0, 2, everything(mesh))
    assert client.ask(HEARTBEAT, 1, **later(2)).error_code == ErrorCode.NONE


def test_another_subscription() -> None:
    mesh = Mesh()
    client = consumer(mesh, subscribed_topic_names=("unknown",))
    assert client.generation == 1
    answer = client.ask(HEARTBEAT, 1, **later(1, subscribed_topic_names=(ORDERS, "unknown")))
    assert (answer.member_epoch, assigned(answer)) == (1, everything(mesh))
    answer = client.ask(HEARTBEAT, 1, **later(1, subscribed_topic_names=()))
    assert (answer.member_epoch, assigned(answer)) == (2, {})


def test_epochs_of_commits_and_positions() -> None:
    mesh = Mesh()
    client = consumer(mesh)
    start = client.positions()[0]
    mesh.do(mesh.cluster.topics_changed(EU, {ORDERS: 3}, mesh.now))
    assert client.ask(HEARTBEAT, 1, **later(1)).member_epoch == 2

    def commit(epoch: int, member_id: str = "m-1") -> int:
        changes = {"generation_id_or_member_epoch": epoch, "member_id": member_id}
        answer = client.ask(ApiKey.OFFSET_COMMIT, 9, **client.commit_values({0: start}, **changes))
        return int(answer.topics[0].partitions[0].error_code)

    assert [commit(epoch) for epoch in (1, 2)] == [0, 0], "a commit may be older than the answer that raised the epoch"
    assert [commit(epoch) for epoch in (0, 3)] == [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert commit(2, "unknown") == ErrorCode.UNKNOWN_MEMBER_ID

    def fetch(epoch: int, member_id: str = "m-1") -> int:
        group = {"group_id": GROUP, "topics": (), "member_id": member_id, "member_epoch": epoch}
        group["topics"] = ({"name": ORDERS, "partition_indexes": (0,)},)
        return int(client.ask(ApiKey.OFFSET_FETCH, 9, groups=(group,)).groups[0].error_code)

    assert [fetch(epoch) for epoch in (1, 2, 3)] == [ErrorCode.STALE_MEMBER_EPOCH, 0, ErrorCode.STALE_MEMBER_EPOCH]
    assert fetch(2, "unknown") == ErrorCode.UNKNOWN_MEMBER_ID
    rejoined = beat(client)
    assert rejoined.member_epoch == 3
    assert [commit(epoch) for epoch in (2, 3)] == [ErrorCode.STALE_MEMBER_EPOCH, 0]


def test_classic_requests_are_not_for_it_nor_its_for_classic_members() -> None:
    mesh = Mesh()
    client, classic = consumer(mesh), joined(mesh)
    beaten = client.ask(ApiKey.HEARTBEAT, 4, group_id=GROUP, generation_id=1, member_id="m-1")
    assert beaten.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    synced = client.ask(ApiKey.SYNC_GROUP, 4, group_id=GROUP, generation_id=1, member_id="m-1", assignments=())
    assert synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    answer = classic.ask(HEARTBEAT, 1, **later(1, member_id=classic.member_id))
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_may_change_its_protocol() -> None:
    """A rolling change of `group.protocol` in a client that keeps its member id."""
    mesh = Mesh()
    client = joined(mesh)
    answer = beat(client, member_id=client.member_id)
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    assert client.join(member_id=client.member_id).error_code == 0
    assert len(mesh.pool.members.by_id) == 1
    beaten = client.ask(ApiKey.HEARTBEAT, 4, group_id=GROUP, generation_id=3, member_id=client.member_id)
    assert beaten.error_code == 0


def test_static_members() -> None:
    mesh = Mesh()
    client = consumer(mesh, instance_id="pod-1")
    second = Client(mesh)
    refused = beat(second, member_id="m-2", instance_id="pod-1")
    assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID

    answer = client.ask(HEARTBEAT, 1, **later(-2, instance_id="pod-1"))
    assert (answer.error_code, answer.member_epoch) == (0, -2)
    assert list(mesh.pool.members.by_id) == ["m-1"], "it may come back"
    assert beat(second, member_id="m-2", instance_id="pod-1").error_code == 0
    assert list(mesh.pool.members.by_id) == ["m-2"]
    answer = client.ask(HEARTBEAT, 1, **later(1, instance_id="pod-1"))
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    third = consumer(mesh, "m-3")
    answer = third.ask(HEARTBEAT, 1, **later(1, member_id="m-3", instance_id="pod-1"))
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_its_session_ends() -> None:
    mesh = Mesh()
    client = consumer(mesh)
    mesh.advance(SESSION_TIMEOUT - 1)
    assert client.ask(HEARTBEAT, 1, **later(1)).error_code == 0
    mesh.advance(SESSION_TIMEOUT - 1)
    assert member_of(mesh, client)
    mesh.advance(2)
    assert client.ask(HEARTBEAT, 1, **later(1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(client).member_epoch == 1
