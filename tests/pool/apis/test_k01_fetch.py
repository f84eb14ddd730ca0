from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from mesh.pool.common.effects import RefreshTopics
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.settings import PoolSettings
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, fetch_values, joined, member_of, values_of, versions
from tests.pool.apis.messages import response
from tests.pool.harness import ORDERS

VERSIONS = versions(ApiKey.FETCH)
ORDERS_ID = Mesh().cluster.topics.topic_id(ORDERS)


def partition(index: int, high_watermark: int, records: bytes = b"", error: ErrorCode = ErrorCode.NONE) -> Any:
    return {
        "partition_index": index,
        "error_code": error,
        "high_watermark": high_watermark,
        "last_stable_offset": high_watermark,
        "log_start_offset": -1 if error else 0,
        "records": records,
    }


def answered(version: int, *partitions: Any, topic: str = ORDERS, topic_id: UUID | None = ORDERS_ID) -> Any:
    topics = ({"topic": topic, "topic_id": topic_id, "partitions": partitions},)
    return response(ApiKey.FETCH, version, session_id=0, responses=topics)


def one(answer: Any, index: int = 0) -> Any:
    return answer.responses[0].partitions[index]


@pytest.mark.parametrize("version", VERSIONS)
def test_records_at_virtual_offsets_and_every_partition_that_was_asked_for(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions()
    correlation = client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions))
    assert client.answer(correlation) is None
    mesh.produce(2, count=3)
    answer = client.answer(correlation)
    records = one(answer, 2).records
    assert values_of(records) == [(positions[2] + delta, b"us/orders-0@%d" % delta) for delta in range(3)]
    assert answer == answered(
        version,
        partition(0, positions[0]),
        partition(1, positions[1]),
        partition(2, positions[2] + 3, records),
        partition(3, positions[3]),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_until_max_wait_is_over(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions(partitions=[1, 0])
    correlation = client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions, max_wait=500))
    mesh.advance(0.4)
    assert client.answer(correlation) is None
    mesh.advance(0.2)
    assert client.answer(correlation) == answered(version, *[partition(at, positions[at]) for at in (1, 0)])


@pytest.mark.parametrize("version", VERSIONS)
def test_until_min_bytes_are_there_or_it_can_take_no_more(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions()
    patient = client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions, min_bytes=150))
    mesh.produce(0, count=1)
    assert client.answer(patient) is None
    mesh.produce(1, count=1)
    answer = client.answer(patient)
    assert [len(values_of(one(answer, index).records)) for index in range(4)] == [1, 1, 0, 0]
    positions = {index: one(answer, index).high_watermark for index in range(4)}
    small = client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions, min_bytes=1_000, max_bytes=100))
    mesh.produce(0, count=1)
    assert client.answer(small) is None
    mesh.produce(1, count=1)
    answer = client.answer(small)
    assert [len(values_of(one(answer, index).records)) for index in range(4)] == [1, 0, 0, 0]
    assert one(answer, 1) == one(answered(version, partition(1, positions[1] + 1)))


@pytest.mark.parametrize("version", VERSIONS)
def test_when_another_request_waits_behind_it(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions()
    correlation = client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions))
    (ticket,) = mesh.in_work
    mesh.do(mesh.cluster.answer_early(ticket, mesh.now))
    assert client.answer(correlation) == answered(version, *[partition(at, positions[at]) for at in range(4)])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_backlog_that_this_member_may_not_take(version: int) -> None:
    mesh = Mesh(PoolSettings(initial_window=2))
    client, other = joined(mesh), joined(mesh, "other")
    positions = client.positions()
    other.send(ApiKey.FETCH, version, **fetch_values(mesh, other.positions(), max_wait=0))
    for again in range(2):  # a second batch exceeds the window
        correlation = client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions, max_wait=100))
        mesh.produce(0, count=2)
        mesh.advance(0.2)
        answer = client.answer(correlation)
        assert len(values_of(one(answer).records)) == (0 if again else 2)
        expected = partition(0, positions[0] + (1 if again else 2), one(answer).records)
        assert answer == answered(version, expected, *[partition(at, positions[at]) for at in (1, 2, 3)])
        positions[0] += 2
    assert member_of(mesh, client).in_flight == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_the_offset_says_whose_fetch_it_is(version: int) -> None:
    """Two members with one client id, on connections that carry no other identification."""
    mesh = Mesh()
    members = [joined(mesh), joined(mesh)]
    fetching = [Client(mesh), Client(mesh)]
    starts = [member.positions() for member in members]
    correlations = [
        connection.send(ApiKey.FETCH, version, **fetch_values(mesh, positions))
        for connection, positions in zip(reversed(fetching), starts, strict=True)
    ]
    mesh.produce(0, count=1)
    mesh.produce(0, count=1)
    for connection, correlation, positions in zip(reversed(fetching), correlations, starts, strict=True):
        ((offset, _),) = values_of(one(connection.answer(correlation)).records)
        assert offset == positions[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_records_at_the_same_offsets_until_they_are_committed(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions()
    first = client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions))
    mesh.produce(0, count=5)
    records = one(client.answer(first)).records
    again = client.ask(ApiKey.FETCH, version, **fetch_values(mesh, positions))
    assert one(again).records == records
    below = client.ask(ApiKey.FETCH, version, **fetch_values(mesh, {**positions, 0: 0}))
    assert one(below).records == records
    client.ask(ApiKey.OFFSET_COMMIT, 8, **client.commit_values({0: positions[0] + 5}))
    after = client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions, max_wait=100))
    mesh.advance(0.2)
    assert client.answer(after) == answered(version, *[partition(at, positions[at]) for at in range(4)])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("index", [4, -1, 2**31 - 1, -(2**31)])
def test_partitions_that_do_not_exist(version: int, index: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions(partitions=[0])
    answer = client.ask(ApiKey.FETCH, version, **fetch_values(mesh, {**positions, index: 7}))
    unknown = partition(index, -1, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert answer == answered(version, partition(0, positions[0]), unknown)


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_that_do_not_exist(version: int) -> None:
    mesh = Mesh()
    values = fetch_values(mesh, {0: 0, 9: 2**40}, topic="unknown")
    for topic_id in (UUID(int=7), None):
        values["topics"] = ({**values["topics"][0], "topic_id": topic_id},)
        answer = Client(mesh).ask(ApiKey.FETCH, version, **values)
        error = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [partition(index, -1, error=error) for index in (0, 9)]
        assert answer == answered(version, *partitions, topic="unknown", topic_id=topic_id)
    assert RefreshTopics() not in mesh.effects


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_is_named_twice(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    values = fetch_values(mesh, client.positions(partitions=[0]))
    (topic,) = values["topics"]
    (asked,) = topic["partitions"]
    values["topics"] = ({**topic, "partitions": (asked, asked)},)
    twice = partition(0, -1, error=ErrorCode.INVALID_REQUEST)
    assert client.ask(ApiKey.FETCH, version, **values) == answered(version, partition(0, asked["fetch_offset"]), twice)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [-1, -2, -(2**63)])
def test_a_negative_offset_is_below_every_window(version: int, offset: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions(partitions=[0])
    client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions, max_wait=0))
    empty = client.send(ApiKey.FETCH, version, **fetch_values(mesh, {0: offset}, max_wait=100))
    mesh.advance(0.2)
    assert client.answer(empty) == answered(version, partition(0, 0))
    parked = client.send(ApiKey.FETCH, version, **fetch_values(mesh, {0: offset}))
    mesh.produce(0, count=1)
    answer = client.answer(parked)
    assert answer == answered(version, partition(0, positions[0] + 1, one(answer).records))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 2, 2**62, 2**53])
def test_an_offset_that_nobody_can_have(version: int, offset: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    client.send(ApiKey.FETCH, version, **fetch_values(mesh, client.positions(), max_wait=0))
    answer = client.ask(ApiKey.FETCH, version, **fetch_values(mesh, {0: offset}))
    assert answer == answered(version, partition(0, -1, error=ErrorCode.OFFSET_OUT_OF_RANGE))


@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_beyond_reason(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions(partitions=[0])
    negative: dict[str, Any] = {"max_wait": -1, "min_bytes": -1, "max_bytes": -1}
    answer = client.ask(ApiKey.FETCH, version, **fetch_values(mesh, positions, **negative))
    assert answer == answered(version, partition(0, positions[0]))
    most: dict[str, Any] = {"max_wait": 2**31 - 1, "min_bytes": 2**31 - 1, "max_bytes": 2**31 - 1}
    patient = client.send(ApiKey.FETCH, version, **fetch_values(mesh, positions, **most))
    mesh.advance(29)
    assert client.answer(patient) is None
    mesh.advance(2)
    assert client.answer(patient) == answered(version, partition(0, positions[0]))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_ignored(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions(partitions=[0])
    values = fetch_values(mesh, positions, max_wait=0, isolation_level=1, rack_id="eu-1", replica_id=3)
    (topic,) = values["topics"]
    (asked,) = topic["partitions"]
    odd = {"current_leader_epoch": 77, "last_fetched_epoch": 5, "log_start_offset": 12}
    values["topics"] = ({**topic, "partitions": ({**asked, **odd},)},)
    values["forgotten_topics_data"] = ({"topic": "x", "topic_id": UUID(int=3), "partitions": (1, 2)},)
    assert client.ask(ApiKey.FETCH, version, **values) == answered(version, partition(0, positions[0]))


@pytest.mark.parametrize("version", VERSIONS[3:])
def test_sessions(version: int) -> None:
    """KIP-227: epoch 0 asks for a session and -1 for none, or ends one; both name all their partitions."""
    mesh = Mesh()
    client = joined(mesh)
    positions = client.positions(partitions=[0])
    for session_id, epoch in ((0, -1), (0, 0), (5, -1), (5, 0)):
        values = fetch_values(mesh, positions, max_wait=0, session_id=session_id, session_epoch=epoch)
        assert client.ask(ApiKey.FETCH, version, **values) == answered(version, partition(0, positions[0]))
    for session_id, epoch in ((5, 1), (0, 1), (5, 2**31 - 1), (5, -2)):
        values = fetch_values(mesh, positions, session_id=session_id, session_epoch=epoch)
        refused = response(
            ApiKey.FETCH, version, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0, responses=()
        )
        assert client.ask(ApiKey.FETCH, version, **values) == refused


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_group_where_none_is_allowed(version: int) -> None:
    mesh = Mesh(rules=GroupRules(group_less=None))
    answer = Client(mesh).ask(ApiKey.FETCH, version, **fetch_values(mesh, {0: 0}))
    assert answer == answered(version, partition(0, -1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))


@pytest.mark.parametrize("version", VERSIONS)
def test_of_an_earlier_run(version: int) -> None:
    """The Fetch parks until its group has joined again; the answer does not move its client."""
    mesh = Mesh()
    foreign = {0: 3 << 32 | 17, 1: 3 << 32 | 40}
    client = Client(mesh)
    correlation = client.send(ApiKey.FETCH, version, **fetch_values(mesh, foreign))
    assert client.answer(correlation) is None
    mesh.advance(0.6)
    assert client.answer(correlation) == answered(version, *[partition(at, foreign[at]) for at in (0, 1)])


@pytest.mark.parametrize("version", VERSIONS)
def test_of_nothing(version: int) -> None:
    mesh = Mesh()
    client = joined(mesh)
    values = fetch_values(mesh, {}, topics=())
    correlation = client.send(ApiKey.FETCH, version, **values)
    mesh.advance(0.6)
    assert client.answer(correlation) == response(ApiKey.FETCH, version, session_id=0, responses=())


def test_thousands_of_partitions() -> None:
    mesh = Mesh()
    client = joined(mesh)
    positions = {index: 5 for index in range(15_000)} | client.positions()
    answer = client.ask(ApiKey.FETCH, 12, **fetch_values(mesh, positions))
    known = [partition(index, positions[index]) for index in range(4)]
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = [partition(index, -1, error=error) for index in range(4, 15_000)]
    assert answer == answered(12, *known, *unknown)
    assert len(mesh.pool.partitions) <= 4, "what does not exist leaves nothing behind"
