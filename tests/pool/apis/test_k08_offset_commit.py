from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, fetch_values, joined, member_of, versions
from tests.pool.apis.messages import response
from tests.pool.harness import EU, source

VERSIONS = versions(ApiKey.OFFSET_COMMIT)


def answered(version: int, errors: dict[int, ErrorCode], topic: str = "orders") -> Any:
    partitions = tuple({"partition_index": index, "error_code": error} for index, error in errors.items())
    return response(ApiKey.OFFSET_COMMIT, version, topics=({"name": topic, "partitions": partitions},))


def with_records(mesh: Mesh, client: Client, count: int = 5) -> dict[int, int]:
    """The client gets records of partition 0; returns its first offset."""
    start = client.positions()
    correlation = client.send(ApiKey.FETCH, 12, **fetch_values(mesh, start))
    mesh.produce(0, count=count)
    assert client.answer(correlation) is not None
    return start


@pytest.mark.parametrize("version", VERSIONS)
def test_answered_when_it_is_stored(version: int) -> None:
    mesh = Mesh(auto_store=False)
    client = joined(mesh)
    start = with_records(mesh, client)
    correlation = client.send(ApiKey.OFFSET_COMMIT, version, **client.commit_values({0: start[0] + 3, 1: start[1]}))
    assert client.answer(correlation) is None
    mesh.store()
    assert client.answer(correlation) == answered(version, {0: ErrorCode.NONE, 1: ErrorCode.NONE})
    assert mesh.stored == {source(0): 3}
    assert member_of(mesh, client).in_flight == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_not_stored_in_time(version: int) -> None:
    mesh = Mesh(auto_store=False)
    client = joined(mesh)
    start = with_records(mesh, client)
    correlation = client.send(ApiKey.OFFSET_COMMIT, version, **client.commit_values({0: start[0] + 5, 3: start[3]}))
    mesh.advance(2.9)
    assert client.answer(correlation) is None
    mesh.advance(0.2)
    expected = {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3: ErrorCode.NONE}
    assert client.answer(correlation) == answered(version, expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_moves_away_meanwhile(version: int) -> None:
    mesh = Mesh(auto_store=False)
    client = joined(mesh)
    start = with_records(mesh, client)
    correlation = client.send(ApiKey.OFFSET_COMMIT, version, **client.commit_values({0: start[0] + 5}))
    mesh.assign(EU, indexes=[1])
    assert client.answer(correlation) == answered(version, {0: ErrorCode.REBALANCE_IN_PROGRESS})


@pytest.mark.parametrize("version", VERSIONS)
def test_below_the_committed_position_and_above_what_was_sent(version: int) -> None:
    mesh = Mesh()
    client, other = joined(mesh), joined(mesh)
    start = with_records(mesh, client)
    client.ask(ApiKey.OFFSET_COMMIT, version, **client.commit_values({0: start[0] + 3}))
    for offset, error in (
        (start[0] + 2, ErrorCode.NONE),
        (0, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
        (start[0] + 6, ErrorCode.OFFSET_OUT_OF_RANGE),
        (other.positions()[0], ErrorCode.OFFSET_OUT_OF_RANGE),
        (2**63 - 2, ErrorCode.OFFSET_OUT_OF_RANGE),
    ):
        values = client.commit_values({0: offset})
        assert client.ask(ApiKey.OFFSET_COMMIT, version, **values) == answered(version, {0: error}), offset
    assert mesh.stored == {source(0): 3}
    assert member_of(mesh, client).in_flight == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_and_partitions(version: int) -> None:
    client = joined(Mesh())
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = client.ask(ApiKey.OFFSET_COMMIT, version, **client.commit_values({4: 0, -1: 0}))
    assert answer == answered(version, {4: unknown, -1: unknown})
    values = client.commit_values({})
    values["topics"] = ({"name": "x", "partitions": ({"partition_index": 0, "committed_offset": 1},)},)
    assert client.ask(ApiKey.OFFSET_COMMIT, version, **values) == answered(version, {0: unknown}, "x")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id_or_member_epoch": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id_or_member_epoch": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation_id_or_member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_by_somebody_else(version: int, changes: dict[str, Any], error: ErrorCode) -> None:
    mesh = Mesh()
    client = joined(mesh)
    start = with_records(mesh, client)
    values = client.commit_values({0: start[0] + 5, 2: start[2]}, **changes)
    assert client.ask(ApiKey.OFFSET_COMMIT, version, **values) == answered(version, {0: error, 2: error})
    assert member_of(mesh, client).in_flight == 5


@pytest.mark.parametrize("version", VERSIONS[5:])
def test_by_a_static_member_that_was_fenced(version: int) -> None:
    mesh = Mesh()
    older = joined(mesh, group_instance_id="pod-1")
    start = older.positions()
    joined(mesh, group_instance_id="pod-1")
    values = older.commit_values({0: start[0]}, group_instance_id="pod-1")
    answer = older.ask(ApiKey.OFFSET_COMMIT, version, **values)
    assert answer == answered(version, {0: ErrorCode.FENCED_INSTANCE_ID})


@pytest.mark.parametrize("version", VERSIONS)
def test_by_a_consumer_that_has_not_joined(version: int) -> None:
    mesh = Mesh()
    client = Client(mesh)
    start = with_records(mesh, client)
    assert client.member_id == ""
    values = client.commit_values({0: start[0] + 5})
    assert client.ask(ApiKey.OFFSET_COMMIT, version, **values) == answered(version, {0: ErrorCode.NONE})
    assert mesh.stored == {source(0): 5}


@pytest.mark.parametrize("version", VERSIONS)
def test_of_nothing(version: int) -> None:
    client = joined(Mesh())
    values = {**client.commit_values({}), "topics": ()}
    assert client.ask(ApiKey.OFFSET_COMMIT, version, **values) == response(ApiKey.OFFSET_COMMIT, version, topics=())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_clients_own_metadata_is_not_kept(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    start = with_records(mesh, client)
    values = client.commit_values({0: start[0] + 1})
    (topic,) = values["topics"]
    (partition,) = topic["partitions"]
    values["topics"] = ({**topic, "partitions": ({**partition, "committed_metadata": "mine"},)},)
    assert client.ask(ApiKey.OFFSET_COMMIT, version, **values) == answered(version, {0: ErrorCode.NONE})
    answer = client.ask(ApiKey.OFFSET_FETCH, 9, **client.offset_fetch_values([0]))
    assert answer.groups[0].topics[0].partitions[0].metadata == ""
