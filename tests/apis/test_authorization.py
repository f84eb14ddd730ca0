"""The answer of each API, in every version, to a client without all permissions.
tests/integration/test_authorization.py compares them with a real broker's."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mesh.apis.authorization import GUARDS
from mesh.security.principals import user
from mesh.security.rules import CLUSTER_NAME, Access, Operation, PatternType, Refusal, ResourceType, Rule, Rules
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import APIS_SERVED, Client, Mesh, fetch_values, join_values, versions
from tests.pool.apis.sharing import acknowledge_values, heartbeat_values, share_member
from tests.pool.apis.sharing import fetch_values as share_fetch_values
from tests.pool.apis.sharing import topics as share_topics
from tests.pool.harness import GROUP, MAXIMUM, ORDERS, source

TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
SECRET: Final = "secret"


def access(**names: tuple[str, ...]) -> Access:
    """Permissions to read, by resource type."""
    rules = tuple(
        Rule(
            principals=frozenset({user("alice")}),
            operations=frozenset({Operation.READ}),
            resource_type=ResourceType(kind),
            names=each,
            pattern_type=PatternType.LITERAL,
        )
        for kind, each in names.items()
    )
    return Rules(rules).access(user("alice"), "10.0.0.1")


ALICE, HOST = user("alice"), "10.0.0.1"


def allowed(operation: Operation, **names: str) -> list[Rule]:
    """The operation on groups, and READ on topics."""
    return [
        Rule(
            principals=frozenset({ALICE}),
            operations=frozenset({Operation.READ if kind == "topic" else operation}),
            resource_type=ResourceType(kind),
            names=(name,),
            pattern_type=PatternType.LITERAL,
        )
        for kind, name in names.items()
    ]


MEMBER: Final = {"topic": (ORDERS,), "group": (GROUP,)}


def client(**names: tuple[str, ...]) -> Client:
    return Client(Mesh(), access=access(**names))


def refused(asked: Client) -> list[tuple[Operation, str]]:
    return [(refusal.operation, refusal.name) for refusal in asked.refusals]


def test_every_api_has_its_guard() -> None:
    assert GUARDS.keys() == APIS_SERVED.keys(), "a new handler needs a line in mesh.apis.authorization.GUARDS"


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
def test_metadata_of_named_topics(version: int) -> None:
    asked = client(**MEMBER)
    answer = asked.ask(ApiKey.METADATA, version, topics=({"name": ORDERS}, {"name": SECRET}))
    assert {topic.name: topic.error_code for topic in answer.topics} == {ORDERS: 0, SECRET: TOPIC_REFUSED}
    assert not answer.topics[1].partitions
    assert refused(asked) == [(Operation.DESCRIBE, SECRET)]
    assert len(answer.brokers) == 2


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
def test_metadata_lists_what_one_may_see(version: int) -> None:
    for asked, names in ((client(**MEMBER), [ORDERS]), (client(group=(GROUP,)), [])):
        answer = asked.ask(ApiKey.METADATA, version, topics=() if version == 0 else None)
        assert [topic.name for topic in answer.topics] == names
        assert not asked.refusals, "what is not listed is not refused"


def test_metadata_by_id() -> None:
    asked = client(group=(GROUP,))
    known = asked.mesh.cluster.topics.topic_id(ORDERS)
    answer = asked.ask(ApiKey.METADATA, 12, topics=({"name": None, "topic_id": known},))
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [(None, known, TOPIC_REFUSED)]


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
def test_fetch(version: int) -> None:
    asked = client(group=(GROUP,))
    answer = asked.ask(ApiKey.FETCH, version, **fetch_values(asked.mesh, {0: 0, 1: 0}))
    (topic,) = answer.responses
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, TOPIC_REFUSED),
        (1, TOPIC_REFUSED),
    ]
    assert [(each.high_watermark, each.records) for each in topic.partitions] == [(-1, b"")] * 2
    assert refused(asked) == [(Operation.READ, ORDERS)]


@pytest.mark.parametrize("version", [4, 12])
def test_fetch_of_a_part_is_served(version: int) -> None:
    asked = client(**MEMBER)
    assert asked.join().error_code == 0
    positions = asked.positions()
    values = fetch_values(asked.mesh, {0: positions[0]})
    hidden = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": MAXIMUM}
    values["topics"] = ({"topic": SECRET, "partitions": (hidden,)}, *values["topics"])
    correlation = asked.send(ApiKey.FETCH, version, **values)
    assert asked.answer(correlation) is None, "parked"
    asked.mesh.produce(0, count=2)
    answer = asked.answer(correlation)
    found = {topic.topic: [each.error_code for each in topic.partitions] for topic in answer.responses}
    assert found == {ORDERS: [0], SECRET: [TOPIC_REFUSED]}


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
def test_list_offsets(version: int) -> None:
    asked = client(**MEMBER)
    partition = ({"partition_index": 0, "timestamp": -2},)
    answer = asked.ask(
        ApiKey.LIST_OFFSETS,
        version,
        topics=({"name": SECRET, "partitions": partition}, {"name": ORDERS, "partitions": partition}),
    )
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {ORDERS: 0, SECRET: TOPIC_REFUSED}
    assert refused(asked) == [(Operation.DESCRIBE, SECRET)]


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_offset_commit_without_the_group(version: int) -> None:
    asked = client(topic=(ORDERS,))
    answer = asked.ask(ApiKey.OFFSET_COMMIT, version, **asked.commit_values({0: 5, 1: 6}))
    assert [each.error_code for each in answer.topics[0].partitions] == [GROUP_REFUSED] * 2
    assert asked.refusals == [Refusal(Operation.READ, ResourceType.GROUP, GROUP)]


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_offset_commit_of_topics(version: int) -> None:
    asked = client(**MEMBER)
    values = asked.commit_values({0: 5})
    hidden = {"name": SECRET, "partitions": ({"partition_index": 3, "committed_offset": 5},)}
    answer = asked.ask(ApiKey.OFFSET_COMMIT, version, **{**values, "topics": (hidden,)})
    assert [(topic.name, topic.partitions[0].error_code) for topic in answer.topics] == [(SECRET, TOPIC_REFUSED)]
    answer = asked.ask(ApiKey.OFFSET_COMMIT, version, **{**values, "topics": (hidden, *values["topics"])})
    found = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert found == {SECRET: TOPIC_REFUSED, ORDERS: ErrorCode.UNKNOWN_MEMBER_ID}


def offset_fetch(asked: Client, version: int, *groups: dict[str, Any]) -> list[Any]:
    """The answers for groups, which up to v7 are one."""
    values = {**groups[0], "groups": groups}
    answer = asked.ask(ApiKey.OFFSET_FETCH, version, **values)
    return list(answer.groups) if version >= 8 else [answer]


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_offset_fetch(version: int) -> None:
    topics = tuple({"name": name, "partition_indexes": (0,)} for name in (ORDERS, SECRET))
    values = {"group_id": GROUP, "topics": topics, "member_id": None, "member_epoch": -1}
    (group,) = offset_fetch(client(topic=(ORDERS,)), version, values)
    if version == 1:
        assert [topic.partitions[0].error_code for topic in group.topics] == [GROUP_REFUSED] * 2
    else:
        assert (group.error_code, group.topics) == (GROUP_REFUSED, ())
    asked = client(**MEMBER)
    (group,) = offset_fetch(asked, version, values)
    found = {topic.name: topic.partitions[0].error_code for topic in group.topics}
    assert found == {ORDERS: 0, SECRET: TOPIC_REFUSED}
    assert refused(asked) == [(Operation.DESCRIBE, SECRET)]


def test_offset_fetch_of_several_groups_keeps_their_order() -> None:
    asked = client(**MEMBER)
    topics = ({"name": ORDERS, "partition_indexes": (0,)},)
    groups = [{"group_id": name, "topics": topics, "member_id": None, "member_epoch": -1} for name in ("other", GROUP)]
    assert [(group.group_id, group.error_code) for group in offset_fetch(asked, 8, *groups)] == [
        ("other", GROUP_REFUSED),
        (GROUP, 0),
    ]


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_a_user_that_may_only_describe_a_group_is_given_no_records_of_it(version: int) -> None:
    rules = [
        Rule(
            principals=frozenset({user("alice")}),
            operations=frozenset({operation}),
            resource_type=resource_type,
            names=(name,),
        )
        for operation, resource_type, name in (
            (Operation.READ, ResourceType.TOPIC, ORDERS),
            (Operation.DESCRIBE, ResourceType.GROUP, GROUP),
        )
    ]
    asked = Client(Mesh(), access=Rules(tuple(rules)).access(user("alice"), "10.0.0.1"))
    topics = ({"name": ORDERS, "partition_indexes": (0,)},)
    values = {"group_id": GROUP, "topics": topics, "member_id": None, "member_epoch": -1}
    offset_fetch(asked, version, values)
    assert GROUP not in asked.mesh.cluster.pools, "a slot in the pool would let it take the records of the group"


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
def test_find_coordinator(version: int) -> None:
    asked = client(**MEMBER)
    answer = asked.ask(ApiKey.FIND_COORDINATOR, version, key="other", key_type=0, coordinator_keys=("other", GROUP))
    if version >= 4:
        assert [(each.key, each.error_code) for each in answer.coordinators] == [("other", GROUP_REFUSED), (GROUP, 0)]
    else:
        assert (answer.error_code, answer.host) == (GROUP_REFUSED, "")
    assert asked.refusals == [Refusal(Operation.DESCRIBE, ResourceType.GROUP, "other")]


def _values(api_key: ApiKey) -> dict[str, Any]:
    match api_key:
        case ApiKey.JOIN_GROUP:
            return join_values(member_id="")
        case ApiKey.SYNC_GROUP:
            return {"group_id": GROUP, "generation_id": 1, "member_id": "m", "assignments": ()}
        case ApiKey.HEARTBEAT:
            return {"group_id": GROUP, "generation_id": 1, "member_id": "m"}
        case _:
            return {"group_id": GROUP, "member_id": "m", "members": ({"member_id": "m"},)}


_GROUP_APIS = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)


@pytest.mark.parametrize(("api_key", "version"), [(key, version) for key in _GROUP_APIS for version in versions(key)])
def test_the_group(api_key: ApiKey, version: int) -> None:
    asked = client(topic=(ORDERS,))
    assert asked.ask(api_key, version, **_values(api_key)).error_code == GROUP_REFUSED
    assert asked.refusals == [Refusal(Operation.READ, ResourceType.GROUP, GROUP)]
    assert not asked.mesh.cluster.pools


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_produce(version: int) -> None:
    asked = client(**MEMBER)
    topics = ({"name": ORDERS, "partition_data": ({"index": 2, "records": b"records"},)},)
    answer = asked.ask(ApiKey.PRODUCE, version, acks=1, timeout=1_000, topic_data=topics)
    assert [(each.name, each.partition_responses[0].error_code) for each in answer.responses] == [
        (ORDERS, TOPIC_REFUSED)
    ]


def test_a_member_with_its_rights_lives_as_without_rules() -> None:
    asked = client(**MEMBER)
    assert asked.join().error_code == 0
    positions = asked.positions()
    asked.mesh.produce(0, count=3)
    correlation = asked.send(ApiKey.FETCH, 12, **fetch_values(asked.mesh, {0: positions[0]}))
    assert asked.answer(correlation).responses[0].partitions[0].error_code == 0
    assert not asked.refusals


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_describing_groups(version: int) -> None:
    asked = client(**MEMBER)
    answer = asked.ask(ApiKey.DESCRIBE_GROUPS, version, groups=(SECRET, GROUP))
    assert [(each.group_id, each.error_code == GROUP_REFUSED) for each in answer.groups] == [
        (SECRET, True),
        (GROUP, False),
    ]
    assert refused(asked) == [(Operation.DESCRIBE, SECRET)]


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_groups_one_may_not_see_are_not_listed(version: int) -> None:
    mesh = Mesh()
    for group in (GROUP, SECRET):
        assert Client(mesh).join(group_id=group).error_code == 0
    asked = Client(mesh, access=access(**MEMBER))
    answer = asked.ask(ApiKey.LIST_GROUPS, version)
    assert [each.group_id for each in answer.groups] == [GROUP]
    assert not asked.refusals, "what is not listed is not refused"


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_deleting_groups_needs_more_than_reading_them(version: int) -> None:
    asked = client(**MEMBER)
    answer = asked.ask(ApiKey.DELETE_GROUPS, version, groups_names=(GROUP,))
    assert [each.error_code for each in answer.results] == [GROUP_REFUSED]
    assert refused(asked) == [(Operation.DELETE, GROUP)]
    assert not asked.mesh.questions


def test_deleting_offsets() -> None:
    asked = client(**MEMBER)
    assert asked.ask(ApiKey.OFFSET_DELETE, 0, group_id=GROUP, topics=()).error_code == GROUP_REFUSED


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_HEARTBEAT))
def test_members_of_the_consumer_protocol(version: int) -> None:
    def join(asked: Client, group: str, *topics: str) -> int:
        values = {"member_id": "m", "member_epoch": 0, "rebalance_timeout": 1_000, "topic_partitions": ()}
        answer = asked.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, version, group_id=group, subscribed_topic_names=topics, **values
        )
        return int(answer.error_code)

    assert join(client(**MEMBER), GROUP, ORDERS) == 0
    assert join(client(**MEMBER), GROUP, ORDERS, SECRET) == TOPIC_REFUSED
    assert join(client(**MEMBER), SECRET, ORDERS) == GROUP_REFUSED


def test_a_regular_expression_finds_only_what_one_may_see() -> None:
    values = {"member_id": "m", "member_epoch": 0, "rebalance_timeout": 1_000, "topic_partitions": ()}

    def assigned(**names: tuple[str, ...]) -> int:
        asked = client(**names)
        answer = asked.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id=GROUP, subscribed_topic_regex=".*", **values)
        assert answer.error_code == 0
        assert not asked.refusals, "what is not found is not refused"
        return len(answer.assignment.topic_partitions)

    assert assigned(**MEMBER) == 1
    assert assigned(group=(GROUP,)) == 0


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_DESCRIBE))
def test_describing_consumer_groups(version: int) -> None:
    mesh = Mesh()
    values = {"member_id": "m", "member_epoch": 0, "rebalance_timeout": 1_000, "topic_partitions": ()}
    joined = Client(mesh).ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id=GROUP, subscribed_topic_names=(ORDERS,), **values
    )
    assert joined.error_code == 0

    told: list[tuple[Operation, str]] = []

    def described(**names: tuple[str, ...]) -> list[tuple[int, int]]:
        asked = Client(mesh, access=access(**names))
        answer = asked.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=(SECRET, GROUP))
        told.extend(refused(asked))
        return [(int(each.error_code), len(each.members)) for each in answer.groups]

    assert described(**MEMBER) == [(GROUP_REFUSED, 0), (0, 1)]
    assert described(group=(GROUP,)) == [(GROUP_REFUSED, 0), (TOPIC_REFUSED, 0)], "it names a topic one may not see"
    assert told == [(Operation.DESCRIBE, SECRET), (Operation.DESCRIBE, SECRET), (Operation.DESCRIBE, ORDERS)]


def share_heartbeat(asked: Client, group: str, *topics: str) -> int:
    values = heartbeat_values(group_id=group, subscribed_topic_names=topics)
    return int(asked.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **values).error_code)


def test_a_share_member_reads_its_group_and_describes_its_topics() -> None:
    assert share_heartbeat(client(**MEMBER), GROUP, ORDERS) == 0
    assert share_heartbeat(client(**MEMBER), GROUP, ORDERS, SECRET) == TOPIC_REFUSED
    assert share_heartbeat(client(**MEMBER), SECRET, ORDERS) == GROUP_REFUSED


@pytest.mark.parametrize("version", versions(ApiKey.SHARE_FETCH))
def test_share_sessions(version: int) -> None:
    asked = client(topic=(ORDERS,))
    assert asked.ask(ApiKey.SHARE_FETCH, version, **share_fetch_values(0)).error_code == GROUP_REFUSED
    assert asked.ask(ApiKey.SHARE_ACKNOWLEDGE, version, **acknowledge_values(1)).error_code == GROUP_REFUSED
    assert refused(asked) == [(Operation.READ, GROUP)] * 2


@pytest.mark.parametrize("version", versions(ApiKey.SHARE_FETCH))
def test_a_share_session_of_topics_one_may_not_read(version: int) -> None:
    asked = client(group=(GROUP,))
    opened = share_fetch_values(0, max_wait=0, topics=share_topics(asked.mesh, {0: (), 1: ()}))
    answer = asked.ask(ApiKey.SHARE_FETCH, version, **opened)
    assert answer.error_code == 0
    (topic,) = answer.responses
    assert {each.partition_index: int(each.error_code) for each in topic.partitions} == dict.fromkeys(
        (0, 1), TOPIC_REFUSED
    )
    assert not any(each.records for each in topic.partitions)


def test_describing_share_groups() -> None:
    mesh = Mesh()
    share_member(mesh)

    told: list[tuple[Operation, str]] = []

    def described(**names: tuple[str, ...]) -> list[tuple[int, int]]:
        asked = Client(mesh, access=access(**names))
        answer = asked.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=(SECRET, GROUP))
        told.extend(refused(asked))
        return [(int(each.error_code), len(each.members)) for each in answer.groups]

    assert described(**MEMBER) == [(GROUP_REFUSED, 0), (0, 1)]
    assert described(group=(GROUP,)) == [(GROUP_REFUSED, 0), (TOPIC_REFUSED, 0)], "it names a topic one may not see"
    assert told == [(Operation.DESCRIBE, SECRET), (Operation.DESCRIBE, SECRET), (Operation.DESCRIBE, ORDERS)]


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS))
def test_offsets_of_share_groups(version: int) -> None:
    mesh = Mesh()
    mesh.upstreams[GROUP].stored[source(0)] = 5
    groups = tuple({"group_id": name, "topics": None} for name in (SECRET, GROUP))

    def described(**names: tuple[str, ...]) -> dict[str, tuple[int, list[tuple[int, int]]]]:
        answer = Client(mesh, access=access(**names)).ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, groups=groups)
        return {
            each.group_id: (
                int(each.error_code),
                [(row.start_offset, int(row.error_code)) for topic in each.topics for row in topic.partitions],
            )
            for each in answer.groups
        }

    assert described(**MEMBER) == {SECRET: (GROUP_REFUSED, []), GROUP: (0, [(5, 0)])}
    assert described(group=(GROUP,))[GROUP] == (0, [(-1, TOPIC_REFUSED)])


def test_setting_and_deleting_offsets_of_share_groups() -> None:
    for api, operation, topics in (
        (
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            Operation.READ,
            tuple(
                {"topic_name": name, "partitions": ({"partition_index": 0, "start_offset": 3},)}
                for name in (SECRET, ORDERS)
            ),
        ),
        (
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            Operation.DELETE,
            tuple({"topic_name": name} for name in (SECRET, ORDERS)),
        ),
    ):
        outsider = client(topic=(ORDERS,))
        assert outsider.ask(api, 0, group_id=GROUP, topics=topics).error_code == GROUP_REFUSED
        assert refused(outsider) == [(operation, GROUP)]
        asked = Client(Mesh(), access=Rules(tuple(allowed(operation, group=GROUP, topic=ORDERS))).access(ALICE, HOST))
        answer = asked.ask(api, 0, group_id=GROUP, topics=topics)
        found = {each.topic_name: int(getattr(each, "error_code", 0)) for each in answer.responses}
        if api is ApiKey.ALTER_SHARE_GROUP_OFFSETS:
            found = {each.topic_name: int(each.partitions[0].error_code) for each in answer.responses}
        assert (answer.error_code, found) == (0, {ORDERS: 0, SECRET: TOPIC_REFUSED})
        assert refused(asked) == [(Operation.READ, SECRET)]


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_describing_configurations_of_groups(version: int) -> None:
    resources = tuple(
        {"resource_type": 32, "resource_name": name, "configuration_keys": None} for name in (SECRET, GROUP)
    )
    asked = Client(Mesh(), access=Rules(tuple(allowed(Operation.DESCRIBE_CONFIGS, group=GROUP))).access(ALICE, HOST))
    answer = asked.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=resources)
    assert {each.resource_name: (int(each.error_code), bool(each.configs)) for each in answer.results} == {
        SECRET: (GROUP_REFUSED, False),
        GROUP: (0, True),
    }
    assert refused(asked) == [(Operation.DESCRIBE_CONFIGS, SECRET)]


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_altering_configurations_of_groups(version: int) -> None:
    change = ({"name": "share.delivery.count.limit", "config_operation": 0, "value": "7"},)
    resources = tuple({"resource_type": 32, "resource_name": name, "configs": change} for name in (SECRET, GROUP))
    mesh = Mesh()
    asked = Client(mesh, access=Rules(tuple(allowed(Operation.ALTER_CONFIGS, group=GROUP))).access(ALICE, HOST))
    answer = asked.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=resources, validate_only=False)
    assert {each.resource_name: int(each.error_code) for each in answer.responses} == {SECRET: GROUP_REFUSED, GROUP: 0}
    assert mesh.kept.configured() == {GROUP}
    assert refused(asked) == [(Operation.ALTER_CONFIGS, SECRET)]


def test_listing_configurations() -> None:
    asked = client(**MEMBER)
    answer = asked.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=())
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refused(asked) == [(Operation.DESCRIBE_CONFIGS, CLUSTER_NAME)]
