from __future__ import annotations

from typing import Any

import pytest

from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, fetch_values, joined, versions
from tests.pool.apis.messages import response
from tests.pool.harness import GROUP

VERSIONS = versions(ApiKey.OFFSET_FETCH)


def asked(group: str, *topics: tuple[str, tuple[int, ...]], member_id: str | None = None) -> dict[str, Any]:
    named = tuple({"name": name, "partition_indexes": indexes} for name, indexes in topics)
    values = {"group_id": group, "topics": named}
    return {**values, "groups": ({**values, "member_id": member_id},)}


def answered(
    version: int, group: str, *topics: tuple[str, dict[int, tuple[ErrorCode, int]]], error: ErrorCode = ErrorCode.NONE
) -> Any:
    named = tuple(
        {
            "name": name,
            "partitions": tuple(
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "error_code": error if version == 1 and error else each,
                }
                for index, (each, offset) in partitions.items()
            ),
        }
        for name, partitions in topics
    )
    groups = ({"group_id": group, "topics": named, "error_code": error},)
    return response(ApiKey.OFFSET_FETCH, version, topics=named, error_code=error, groups=groups)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_committed_position_never_what_was_sent(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    start = client.positions()
    correlation = client.send(ApiKey.FETCH, 12, **fetch_values(mesh, start))
    mesh.produce(1, count=5)
    assert client.answer(correlation) is not None
    values = client.offset_fetch_values()
    expected = {index: (ErrorCode.NONE, offset) for index, offset in start.items()}
    assert client.ask(ApiKey.OFFSET_FETCH, version, **values) == answered(version, GROUP, ("orders", expected))
    client.ask(ApiKey.OFFSET_COMMIT, 8, **client.commit_values({1: start[1] + 3}))
    expected[1] = (ErrorCode.NONE, start[1] + 3)
    assert client.ask(ApiKey.OFFSET_FETCH, version, **values) == answered(version, GROUP, ("orders", expected))


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_and_partitions(version: int) -> None:
    client = joined(Mesh())
    values = asked(GROUP, ("orders", (4, -1)), ("unknown", (0,)), ("empty", ()))
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert client.ask(ApiKey.OFFSET_FETCH, version, **values) == answered(
        version, GROUP, ("orders", {4: unknown, -1: unknown}), ("unknown", {0: unknown}), ("empty", {})
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_that_has_not_joined_is_given_a_slot(version: int) -> None:
    mesh = Mesh()
    joined(mesh)
    client = Client(mesh)
    first = client.positions(version)
    assert len(mesh.pool.members.groupless) == 1
    assert min(first.values()) >= 0
    assert client.positions(version) == first, "and keeps it"
    (member,) = mesh.pool.members.groupless
    assert {offset >> 32 for offset in first.values()} == {member.slot}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("group", "error"),
    [
        ("", ErrorCode.INVALID_GROUP_ID),
        ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("shop-2", ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_refused(version: int, group: str, error: ErrorCode) -> None:
    mesh = Mesh(rules=GroupRules(admitted=("shop*",), maximum=1))
    joined(mesh)
    expected = {0: (error, -1), 3: (error, -1)}
    answer = Client(mesh).ask(ApiKey.OFFSET_FETCH, version, **asked(group, ("orders", (0, 3))))
    assert answer == answered(version, group, ("orders", expected), error=error)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_all_topics_are_none(version: int) -> None:
    """A tool asks in this way; it has no slot, and gets none."""
    mesh = Mesh(rules=GroupRules(admitted=("shop",)))
    joined(mesh)
    for group, error in (("shop", ErrorCode.NONE), ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED)):
        values = {"group_id": group, "topics": None}
        answer = Client(mesh).ask(ApiKey.OFFSET_FETCH, version, **values, groups=(values,))
        assert answer == answered(version, group, error=error)
    assert not mesh.pool.members.groupless


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    start = client.positions(partitions=[0])
    names = ({"name": "orders", "partition_indexes": (0,)},)
    groups = ({"group_id": GROUP, "topics": names}, {"group_id": "", "topics": names})
    answer = client.ask(ApiKey.OFFSET_FETCH, version, groups=groups)
    first, second = answer.groups
    assert (first.error_code, first.topics[0].partitions[0].committed_offset) == (0, start[0])
    assert second.error_code == ErrorCode.INVALID_GROUP_ID


def test_a_member_names_itself_on_another_connection() -> None:
    mesh = Mesh()
    member, other = joined(mesh), joined(mesh)
    connection = Client(mesh)
    values = asked(GROUP, ("orders", (0,)), member_id=member.member_id)
    expected = {0: (ErrorCode.NONE, member.positions()[0])}
    assert connection.ask(ApiKey.OFFSET_FETCH, 9, **values) == answered(9, GROUP, ("orders", expected))
    assert other.positions()[0] != expected[0][1]
    assert not mesh.pool.members.groupless


@pytest.mark.parametrize("version", VERSIONS)
def test_the_group_of_those_without_one_by_its_name(version: int) -> None:
    mesh = Mesh(rules=GroupRules(admitted=("shop",), group_less=GroupId("readers")))
    answer = Client(mesh).ask(ApiKey.OFFSET_FETCH, version, **asked("readers", ("orders", (0,))))
    (member,) = mesh.cluster.pools[GroupId("readers")].members.groupless
    expected = {0: (ErrorCode.NONE, int(mesh.cluster.slots.start(member.slot)))}
    assert answer == answered(version, "readers", ("orders", expected))
