"""The coordinator: every member is its own generation."""

from __future__ import annotations

from dataclasses import replace
from struct import pack
from typing import Any

import pytest

from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import MemberId
from mesh.pool.common.results import HeartbeatResult, JoinResult, LeaveResult, SyncResult
from mesh.pool.common.settings import PoolSettings
from mesh.pool.groups.coordinator import PENDING_TIMEOUT
from mesh.pool.groups.membership import AT_REST, LARGEST_METADATA, SyncRequest, subscribed_topics
from mesh.wire.errors import ErrorCode
from tests.pool.harness import GROUP, Consumer, World
from tests.pool.names import HOST


def sync(consumer: Consumer, **changes: object) -> SyncResult:
    values: dict[str, object] = {
        "member_id": consumer.member_id,
        "instance_id": consumer.instance_id,
        "generation": consumer.generation,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignment": None,
        **changes,
    }
    world, ticket = consumer.world, consumer.world.ticket()
    world.do(world.cluster.groups.sync(consumer.coordinator, ticket, GROUP, SyncRequest(**values), world.now))  # type: ignore[arg-type]
    return world.answer(ticket, SyncResult)


def begin_to_join_again(consumer: Consumer, **changes: Any) -> object:
    """The ticket of a waiting JoinGroup."""
    world, ticket = consumer.world, consumer.world.ticket()
    request = replace(world.pool.coordinator.members[consumer.member_id].request, member_id=consumer.member_id)
    request = replace(request, **changes)
    world.do(world.cluster.groups.join(consumer.coordinator, ticket, GROUP, request, world.now))
    return ticket


def leave(world: World, *members: tuple[str, str | None]) -> list[ErrorCode]:
    ticket, tool = world.ticket(), world.connect()
    world.do(world.cluster.groups.leave(tool, ticket, GROUP, members, world.now))
    return [error for _, _, error in world.answer(ticket, LeaveResult).members]


def heartbeat(world: World, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    ticket, connection, groups = world.ticket(), world.connect(), world.cluster.groups
    world.do(groups.heartbeat(connection, ticket, GROUP, MemberId(member_id), instance_id, generation, world.now))
    return world.answer(ticket, HeartbeatResult).error


# Joining


def test_a_join_is_answered_after_the_delay_with_the_member_alone() -> None:
    world = World()
    consumer = world.consumer(joined=False)
    began = world.now
    result = consumer.join()
    assert world.now == began + 0.2
    assert (result.error, result.generation) == (ErrorCode.NONE, 1)
    assert (result.protocol_type, result.protocol_name, result.subscription) == ("consumer", "range", b"subscription")


def test_members_of_one_pool_never_rebalance_each_other() -> None:
    world = World()
    first = world.consumer("a")
    second = world.consumer("b")
    assert first.heartbeat() is second.heartbeat() is ErrorCode.NONE
    assert (first.generation, second.generation) == (1, 1)
    second.leave()
    assert first.heartbeat() is ErrorCode.NONE


def test_the_generation_rises_with_each_join_of_the_same_member() -> None:
    world = World()
    consumer = world.consumer()
    slot = world.pool.members.by_id[consumer.member_id].slot
    assert consumer.join().generation == 2
    assert heartbeat(world, consumer.member_id, None, 1) is ErrorCode.ILLEGAL_GENERATION
    assert world.pool.members.by_id[consumer.member_id].slot == slot


def test_a_second_join_takes_the_place_of_the_one_that_waits() -> None:
    world = World()
    consumer = world.consumer()
    ticket = begin_to_join_again(consumer)
    assert consumer.join().error is ErrorCode.NONE
    assert world.answer(ticket, JoinResult).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_delay_of_a_join_counts_from_the_last_one() -> None:
    world = World()
    consumer = world.consumer()
    begin_to_join_again(consumer)
    world.advance(0.1)
    ticket = begin_to_join_again(consumer)
    world.advance(0.1)
    assert ticket not in world.answers
    world.advance(0.1)
    assert world.answer(ticket, JoinResult).generation == 3


def subscription(*topics: bytes, rest: bytes = b"\xff\xff\xff\xff") -> bytes:
    names = b"".join(pack(">h", len(topic)) + topic for topic in topics)
    return pack(">hi", 1, len(topics)) + names + rest


@pytest.mark.parametrize(
    ("after", "again", "at_once"),
    [
        (AT_REST, subscription(b"orders", rest=b"generation 1"), True),
        (30.0, subscription(b"orders", rest=b"generation 2"), True),
        (AT_REST / 2, subscription(b"orders", rest=b"generation 1"), False),
        (30.0, subscription(b"orders", b"payments"), False),
        (30.0, subscription(b"order"), False),
        (30.0, b"nothing of the kind", False),
    ],
)
def test_a_member_that_joins_again_with_the_same_topics_knows_them_and_does_not_wait(
    after: float, again: bytes, at_once: bool
) -> None:
    """kafka-python hangs when its poll ends within a second join (decision 0002)."""
    world = World()
    consumer = world.consumer(joined=False)
    began = world.now
    first = consumer.join(protocols=(("range", subscription(b"orders", rest=b"generation 0")),))
    assert world.now == began + 0.2, "nobody knows that of one that is new"
    world.advance(after)
    ticket = begin_to_join_again(consumer, protocols=(("range", again),))
    world.advance(0.0)
    assert (ticket in world.answers) is at_once
    world.advance(0.2)
    assert world.answer(ticket, JoinResult).generation == first.generation + 1


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff", subscription(*[b""] * 1_001), subscription(b"orders", rest=b"")[:-1]],
)
def test_topics_of_metadata_that_names_none(metadata: bytes) -> None:
    assert subscribed_topics(metadata) == metadata


def test_while_it_joins_its_heartbeats_and_syncs_are_told_so() -> None:
    world = World()
    consumer = world.consumer()
    begin_to_join_again(consumer)
    assert heartbeat(world, consumer.member_id, None, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert sync(consumer, generation=2).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_dynamic_member_is_given_an_id_and_told_to_come_back_with_it() -> None:
    world = World()
    consumer = world.consumer(joined=False)
    promised = consumer.join(must_know_id=True)
    assert promised.error is ErrorCode.MEMBER_ID_REQUIRED
    assert promised.member_id.startswith("c-")
    assert not world.pool.members.by_id
    consumer.member_id = promised.member_id
    joined = consumer.join(must_know_id=True)
    assert (joined.error, joined.member_id) == (ErrorCode.NONE, promised.member_id)


def test_an_id_that_was_promised_expires_however_long_the_session_timeout() -> None:
    world = World(PoolSettings(linger=100.0))
    consumer = world.consumer(joined=False)
    consumer.member_id = consumer.join(must_know_id=True, session_timeout=1_800.0).member_id
    world.advance(PENDING_TIMEOUT)
    assert consumer.join().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pool_waits_for_a_client_that_was_told_to_come_back() -> None:
    world = World(PoolSettings(linger=1.0))
    consumer = world.consumer(joined=False)
    consumer.member_id = consumer.join(must_know_id=True, session_timeout=10.0).member_id
    world.advance(5.0)
    assert consumer.join().error is ErrorCode.NONE


def test_promises_are_bounded() -> None:
    world = World(PoolSettings(max_members=2))
    consumer = world.consumer(joined=False)
    errors = [consumer.join(must_know_id=True).error for _ in range(3)]
    assert errors == [ErrorCode.MEMBER_ID_REQUIRED] * 2 + [ErrorCode.GROUP_MAX_SIZE_REACHED]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"session_timeout": 5.9}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout": 1_801.0}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", bytes(LARGEST_METADATA)), ("sticky", b"1"))}, ErrorCode.INVALID_REQUEST),
        ({"member_id": MemberId("nobody")}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": MemberId("nobody"), "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"session_timeout": 1.0, "protocol_type": "connect"}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": "connect", "member_id": MemberId("nobody")}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_joins_that_are_refused(changes: dict[str, object], error: ErrorCode) -> None:
    world = World()
    world.consumer("other")
    refused = world.consumer(joined=False).join(**changes)
    assert (refused.error, refused.generation) == (error, -1)
    assert len(world.pool.members.by_id) == 1


def test_a_group_has_a_size() -> None:
    world = World(PoolSettings(max_members=1))
    first = world.consumer()
    assert world.consumer("b", joined=False).join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.join().error is ErrorCode.NONE, "one that is a member may join again"


def test_a_member_id_of_a_group_that_is_not_there_is_unknown() -> None:
    world = World()
    consumer = world.consumer(joined=False)
    consumer.member_id = MemberId("c-1")
    assert consumer.join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(world, "c-1", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert sync(consumer).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert leave(world, ("c-1", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert not world.cluster.pools


@pytest.mark.parametrize(
    ("admitted", "maximum", "error"),
    [
        (("other",), 10, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (("sh?p", "other"), 10, ErrorCode.NONE),
        (("*",), 0, ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_groups_are_admitted_by_patterns_and_up_to_a_number(
    admitted: tuple[str, ...], maximum: int, error: ErrorCode
) -> None:
    world = World(rules=GroupRules(admitted=admitted, maximum=maximum))
    assert world.consumer(joined=False).join().error is error


# Static members


def test_a_static_takeover_fences_the_older_one_and_gets_a_new_slot() -> None:
    world = World()
    older = world.consumer("a", instance_id="i")
    world.produce(0, 3)
    older.fetch()
    slot = world.pool.members.by_id[older.member_id].slot
    newer = world.consumer("b", instance_id="i")
    assert world.pool.members.by_id[newer.member_id].slot > slot
    assert len(world.pool.members.by_id) == 1
    assert older.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert sync(older).error is ErrorCode.FENCED_INSTANCE_ID
    assert older.join().error is ErrorCode.FENCED_INSTANCE_ID
    newer.fetch()
    assert [value for _, _, value in newer.received] == [value for _, _, value in older.received]


def test_a_static_takeover_is_possible_in_a_group_that_is_full() -> None:
    world = World(PoolSettings(max_members=1))
    world.consumer("a", instance_id="i")
    assert world.consumer("b", joined=False, instance_id="i").join().error is ErrorCode.NONE


def test_a_static_member_may_join_again_with_its_id() -> None:
    world = World()
    consumer = world.consumer(instance_id="i")
    assert consumer.join().generation == 2
    assert consumer.heartbeat() is ErrorCode.NONE


def test_a_static_member_is_asked_for_no_member_id() -> None:
    world = World()
    consumer = world.consumer(joined=False, instance_id="i")
    assert consumer.join(must_know_id=True).error is ErrorCode.NONE


def test_an_instance_that_nobody_has_is_unknown() -> None:
    world = World()
    consumer = world.consumer()
    assert heartbeat(world, consumer.member_id, "other", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_id_is_free_again_when_its_member_is_gone_however_it_last_joined() -> None:
    world = World()
    consumer = world.consumer(instance_id="i")
    consumer.instance_id = None
    consumer.join()
    assert leave(world, (consumer.member_id, None)) == [ErrorCode.NONE]
    assert not world.pool.coordinator._static
    assert leave(world, ("", "i")) == [ErrorCode.UNKNOWN_MEMBER_ID]


# SyncGroup


def test_a_member_is_given_back_the_assignment_it_made() -> None:
    world = World()
    consumer = world.consumer()
    assert sync(consumer) == SyncResult(ErrorCode.NONE, "consumer", "range", b"all")
    assert sync(consumer, assignment=b"less").assignment == b"less"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"member_id": MemberId("nobody")}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None, "protocol_type": None}, ErrorCode.NONE),
        ({"member_id": MemberId("nobody"), "generation": 2}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 2, "protocol_type": "connect"}, ErrorCode.ILLEGAL_GENERATION),
        ({"assignment": bytes(LARGEST_METADATA)}, ErrorCode.NONE),
        ({"assignment": bytes(LARGEST_METADATA + 1)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_sync_is_checked_in_kafkas_order_against_the_members_own_join(
    changes: dict[str, object], error: ErrorCode
) -> None:
    world = World()
    consumer = world.consumer()
    assert sync(consumer, **changes).error is error


def test_a_protocol_of_another_member_is_not_its_own() -> None:
    world = World()
    first = world.consumer("a")
    second = world.consumer("b", joined=False)
    ticket = world.ticket()
    request = world.pool.coordinator.members[first.member_id].request
    other = replace(request, protocols=(("roundrobin", b""),), client=ClientIdentity("b", HOST))
    world.do(world.cluster.groups.join(second.coordinator, ticket, GROUP, other, world.now))
    world.advance(0.2)
    result = world.answer(ticket, JoinResult)
    second.member_id, second.generation = result.member_id, result.generation
    assert sync(first).error is ErrorCode.NONE
    assert sync(second, protocol_name="roundrobin").error is ErrorCode.NONE
    assert sync(second).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# Expiry


def test_a_member_expires_at_its_own_session_timeout() -> None:
    world = World()
    quick, slow = world.consumer("a", joined=False), world.consumer("b")
    quick.join(session_timeout=6.0)
    world.advance(5.9)
    assert quick.heartbeat() is ErrorCode.NONE
    world.advance(6.1)
    assert quick.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert slow.heartbeat() is ErrorCode.NONE


def test_a_join_may_bring_a_shorter_session_timeout() -> None:
    world = World()
    consumer = world.consumer()
    consumer.join(session_timeout=6.0)
    world.advance(6.1)
    assert consumer.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_shows_that_a_member_lives() -> None:
    world = World()
    consumer = world.consumer(joined=False)
    consumer.join(session_timeout=6.0)
    world.advance(4.0)
    consumer.commit()
    world.advance(4.0)
    assert consumer.heartbeat() is ErrorCode.NONE


def test_a_member_expires_some_seconds_after_its_last_connection_closed() -> None:
    world = World(PoolSettings(fast_expiry=3.0))
    consumer = world.consumer()
    consumer.fetch(wait=0.0)
    world.disconnect(consumer.fetching)
    world.advance(10.0)
    assert consumer.heartbeat() is ErrorCode.NONE, "one of two is left"
    world.disconnect(consumer.coordinator)
    world.advance(2.9)
    assert world.pool.members.by_id
    world.advance(0.2)
    assert not world.pool.members.by_id


def test_its_last_connection_is_the_last_one_not_an_earlier_one() -> None:
    """It came back and lost its connection again: the time starts again."""
    world = World(PoolSettings(fast_expiry=3.0))
    consumer = world.consumer()
    consumer.fetch(wait=0.0)
    world.disconnect(consumer.coordinator)
    world.disconnect(consumer.fetching)
    world.advance(2.0)
    world.reconnect(consumer)
    consumer.fetch(wait=0.0)
    world.disconnect(consumer.fetching)
    world.advance(2.0)
    assert world.pool.members.by_id
    world.advance(1.1)
    assert not world.pool.members.by_id


def test_a_member_that_heartbeats_on_a_new_connection_is_not_away() -> None:
    """A client whose application is busy does not fetch, but its heartbeats go on."""
    world = World(PoolSettings(fast_expiry=3.0))
    consumer = world.consumer()
    consumer.disconnect()
    world.advance(1.0)
    world.reconnect(consumer)
    assert consumer.heartbeat() is ErrorCode.NONE
    world.advance(3.0)
    assert consumer.heartbeat() is ErrorCode.NONE
    world.advance(46.0)
    assert consumer.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "its session timeout judges it from then on"


@pytest.mark.parametrize("by", ["heartbeat", "commit"])
def test_a_member_that_was_heard_on_a_new_connection_is_away_when_that_one_closes(by: str) -> None:
    world = World(PoolSettings(fast_expiry=3.0))
    consumer = world.consumer()
    consumer.fetch(wait=0.0)
    consumer.disconnect()
    world.advance(1.0)
    world.reconnect(consumer)
    if by == "heartbeat":
        assert consumer.heartbeat() is ErrorCode.NONE
    else:
        consumer.commit()
    world.advance(4.0)
    assert world.pool.members.by_id
    consumer.disconnect()
    world.advance(2.9)
    assert world.pool.members.by_id
    world.advance(0.2)
    assert not world.pool.members.by_id


# Leaving


def test_members_leave_in_all_forms() -> None:
    world = World()
    dynamic, static, named = (
        world.consumer("a"),
        world.consumer("b", instance_id="i"),
        world.consumer("c", instance_id="j"),
    )
    promised = world.consumer("d", joined=False).join(must_know_id=True).member_id
    assert (
        leave(
            world,
            (dynamic.member_id, None),
            ("", "i"),
            (named.member_id, "j"),
            (promised, None),
            (dynamic.member_id, None),
            ("", "nobody"),
        )
        == [ErrorCode.NONE] * 4 + [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    )
    assert not world.pool.members.by_id
    assert static.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_wrong_member_of_an_instance_cannot_leave_for_it() -> None:
    world = World()
    world.consumer("a", instance_id="i")
    assert leave(world, ("other", "i")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert len(world.pool.members.by_id) == 1


def test_a_member_that_leaves_while_it_joins_is_answered() -> None:
    world = World()
    consumer = world.consumer()
    ticket = begin_to_join_again(consumer)
    consumer.leave()
    assert world.answer(ticket, JoinResult).error is ErrorCode.UNKNOWN_MEMBER_ID
    world.advance(1.0)


def test_a_parked_fetch_of_a_member_that_leaves_is_answered_with_nothing() -> None:
    world = World()
    consumer, other = world.consumer(), world.consumer("b")
    consumer.fetch(minimum=100_000, wait=30.0)
    world.produce(0, 3)
    consumer.leave()
    assert not consumer.is_parked
    assert not consumer.received
    other.fetch()
    assert len(other.received) == 3
