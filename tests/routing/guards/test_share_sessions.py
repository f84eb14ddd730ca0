"""Each ShareFetch judges again the partitions that its share session continues."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from uuid import UUID

from mesh.routing.guards.share_sessions import MOST_REFUSED, MOST_SESSIONS, ShareSessionTopics
from mesh.security.rules import Operation, ResourceType
from mesh.wire.trees import Tree
from tests.routing.guards.test_judging import Names, access, allow

ORDERS, SECRET, UNKNOWN = (UUID(int=number) for number in (1, 2, 3))
READS = access(allow(ResourceType.TOPIC, "orders", Operation.READ))
NOTHING = access()


def fetch(epoch: int, *topics: UUID, member: str = "m", forgotten: UUID | None = None) -> Tree:
    return {
        "group_id": "g",
        "member_id": member,
        "share_session_epoch": epoch,
        "topics": [{"topic_id": each, "partitions": [{"partition_index": 0}]} for each in topics],
        "forgotten_topics_data": [{"topic_id": forgotten, "partitions": [0]}] if forgotten is not None else [],
    }


def asked(request: Tree | None) -> list[UUID]:
    assert request is not None, "there is a session"
    return [each["topic_id"] for each in request["topics"]]


def numbers(request: Tree | None) -> list[tuple[UUID, list[int]]]:
    assert request is not None, "there is a session"
    return [(each["topic_id"], [one["partition_index"] for one in each["partitions"]]) for each in request["topics"]]


def of_secret(epoch: int, *partitions: int, forgotten: Sequence[int] = ()) -> Tree:
    """A ShareFetch of partitions that are refused."""
    topics = [{"topic_id": SECRET, "partitions": [{"partition_index": each} for each in partitions]}]
    left = [{"topic_id": SECRET, "partitions": list(forgotten)}]
    return {**fetch(epoch), "topics": topics if partitions else [], "forgotten_topics_data": left if forgotten else []}


def test_what_was_refused_is_asked_about_each_time() -> None:
    sessions = ShareSessionTopics()
    for _ in range(2):  # it may be told of the same twice
        assert asked(sessions.fetched(fetch(0, ORDERS, SECRET, UNKNOWN), READS, Names())) == [ORDERS, SECRET, UNKNOWN]
    assert asked(sessions.fetched(fetch(1), READS, Names())) == [SECRET]
    assert asked(sessions.fetched(fetch(2, SECRET), READS, Names())) == [SECRET]
    assert asked(sessions.fetched(fetch(3, forgotten=SECRET), READS, Names())) == []


def test_what_is_not_allowed_any_more_ends_the_session() -> None:
    sessions = ShareSessionTopics()
    sessions.fetched(fetch(0, ORDERS), READS, Names())
    assert asked(sessions.fetched(fetch(1), READS, Names())) == []
    for _ in range(2):
        assert sessions.fetched(fetch(2), NOTHING, Names()) is None
    assert sessions.fetched(fetch(2), READS, Names()) is None, "it has ended"
    assert asked(sessions.fetched(fetch(0, ORDERS), READS, Names())) == [ORDERS]


def test_what_is_allowed_now_is_asked_for() -> None:
    sessions = ShareSessionTopics()
    sessions.fetched(fetch(0, ORDERS), NOTHING, Names())
    for _ in range(2):  # it is judged twice before it goes on
        assert asked(sessions.fetched(fetch(1), READS, Names())) == [ORDERS]
    assert asked(sessions.fetched(fetch(2), READS, Names())) == [], "the broker goes on with it"
    assert sessions.fetched(fetch(3), NOTHING, Names()) is None


def test_a_session_that_began_elsewhere_is_not_known() -> None:
    sessions = ShareSessionTopics()
    assert sessions.fetched(fetch(1), READS, Names()) is None
    assert asked(sessions.fetched(fetch(-1), READS, Names())) == [], "it may be ended"
    sessions.fetched(fetch(0, ORDERS), READS, Names())
    sessions.fetched(fetch(-1), READS, Names())
    assert sessions.fetched(fetch(1), READS, Names()) is None


def test_sessions_are_bounded() -> None:
    sessions = ShareSessionTopics()
    for number in range(MOST_SESSIONS + 1):
        sessions.fetched(fetch(0, ORDERS, member=f"m{number}"), READS, Names())
    assert sessions.fetched(fetch(1, member="m0"), READS, Names()) is None
    assert sessions.fetched(fetch(1, member="m1"), READS, Names()) is not None


def test_partitions_are_refused_one_by_one() -> None:
    sessions = ShareSessionTopics()
    sessions.fetched(of_secret(0, 2, 0, 2), READS, Names())
    assert numbers(sessions.fetched(of_secret(1, 1, 0), READS, Names())) == [(SECRET, [1, 0]), (SECRET, [2])]
    assert numbers(sessions.fetched(of_secret(2), READS, Names())) == [(SECRET, [0, 1, 2])]
    assert numbers(sessions.fetched(of_secret(3, forgotten=[1, 7]), READS, Names())) == [(SECRET, [0, 2])]
    everything = access(allow(ResourceType.TOPIC, "*", Operation.READ))
    for _ in range(2):
        found = numbers(sessions.fetched(of_secret(4, 2, forgotten=[0]), everything, Names()))
        assert found == [(SECRET, [2])], "the broker gets it from the client"
    assert numbers(sessions.fetched(of_secret(5), everything, Names())) == []


def test_refused_partitions_are_bounded() -> None:
    sessions = ShareSessionTopics()
    half = range(MOST_REFUSED // 2)
    for member in ("a", "b"):
        sessions.fetched({**of_secret(0, *half), "member_id": member}, READS, Names())
    assert sessions.fetched({**of_secret(1), "member_id": "a"}, READS, Names()) is not None
    sessions.fetched({**of_secret(0, 1), "member_id": "c"}, READS, Names())
    assert sessions.fetched({**of_secret(2), "member_id": "a"}, READS, Names()) is None, "the oldest one"
    for member in ("b", "c"):
        assert sessions.fetched({**of_secret(1), "member_id": member}, READS, Names()) is not None
    assert sessions.fetched(of_secret(0, *range(MOST_REFUSED + 1)), READS, Names()) is not None
    assert sessions.fetched(of_secret(1), READS, Names()) is None


def test_refused_partitions_take_less_memory_than_their_request() -> None:
    sessions = ShareSessionTopics()
    request = of_secret(0, *range(0, 2 * MOST_REFUSED, 2))
    tracemalloc.start()
    try:
        assert sessions.fetched(request, READS, Names()) is not None
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 6 * MOST_REFUSED
