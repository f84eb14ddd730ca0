"""A virtual cluster: several pools, consumers that join none, connections that die."""

from __future__ import annotations

import pytest

from mesh.apis.answers import ConnectionId
from mesh.pool.common.effects import Report
from mesh.pool.common.group_rules import GROUP_LESS, GroupRules
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import PoolSettings
from mesh.pool.state.slots import Slots
from mesh.wire.errors import ErrorCode
from tests.pool.consumer import Protocol
from tests.pool.harness import GROUP, NOBODY, ORDERS, Consumer, World, source, value_of

OTHER = GroupId("other")
NAMES = [(ORDERS, index) for index in range(4)]


def assigning(world: World, name: str = "assign", group: GroupId = GROUP) -> Consumer:
    """A consumer in assign() mode: it names a group, but does not join it."""
    consumer = world.consumer(name, joined=False, group=group)
    consumer.reset()
    return consumer


def error_of(world: World, ticket: object) -> set[ErrorCode]:
    return set(world.answer(ticket, CommitResult).errors.values())


# Groups


def test_every_group_gets_all_records() -> None:
    world = World()
    first, second = world.consumer("a"), world.consumer("b", group=OTHER)
    for group, consumer in ((GROUP, first), (OTHER, second)):
        with world.of(group):
            world.produce(0, 3)
            consumer.fetch()
            consumer.commit()
            assert world.stored == {source(0): 3}
    assert [value for _, _, value in first.received] == [value for _, _, value in second.received]


def test_slots_are_unique_over_the_virtual_cluster() -> None:
    world = World()
    consumers = [world.consumer(f"c{number}", group=GroupId(f"g{number}")) for number in range(20)]
    assert len({consumer.positions[0] >> 32 for consumer in consumers}) == 20


def test_an_offset_of_another_group_is_refused() -> None:
    world = World()
    first, second = world.consumer("a"), world.consumer("b", group=OTHER)
    assert error_of(world, first.commit({0: second.positions[0]})) == {ErrorCode.OFFSET_OUT_OF_RANGE}


def test_a_refused_group_is_reported_with_the_step_that_refused_it() -> None:
    world = World(rules=GroupRules(maximum=1))
    world.consumer()
    consumer = world.consumer("b", joined=False, group=OTHER)
    assert consumer.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert any(isinstance(effect, Report) and effect.fields.get("group") == OTHER for effect in world.effects)


@pytest.mark.parametrize(
    ("group", "error"),
    [
        (GroupId(""), ErrorCode.INVALID_GROUP_ID),
        (OTHER, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (GROUP, ErrorCode.NONE),
        (GROUP_LESS, ErrorCode.NONE),
    ],
)
def test_offset_fetch_of_groups_that_are_admitted_and_not(group: GroupId, error: ErrorCode) -> None:
    world = World(rules=GroupRules(admitted=("shop",)))
    consumer = world.consumer(joined=False)
    committed, effects = world.cluster.committed_offsets(consumer.fetching, "c", group, "", NAMES, world.now)
    world.do(effects)
    assert committed.error is error
    assert bool(committed.offsets) is (error is ErrorCode.NONE)
    assert all(offset > 0 for _, offset in committed.offsets.values())


# assign()


def test_a_consumer_that_names_a_group_without_joining_shares_its_pool() -> None:
    world = World()
    joined, assigned = world.consumer("a"), assigning(world)
    for _ in range(2):
        for consumer in (joined, assigned):
            if not consumer.is_parked:
                consumer.fetch(wait=30.0)
        world.produce(0, 3)
    assert len(joined.received) == len(assigned.received) == 3
    world.check()


def test_it_commits_with_an_empty_member_id_and_generation_minus_1() -> None:
    world = World()
    consumer = assigning(world)
    world.produce(0, 3)
    consumer.fetch()
    assert error_of(world, consumer.commit()) == {ErrorCode.NONE}
    assert world.stored == {source(0): 3}
    consumer.reset()
    assert consumer.positions[0] & 0xFFFFFFFF


def test_it_cannot_commit_in_the_name_of_another_group() -> None:
    world = World()
    world.consumer("b", group=OTHER)
    consumer = assigning(world)
    world.produce(0, 3)
    consumer.fetch()
    consumer.group = OTHER
    assert error_of(world, consumer.commit()) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert not world.stored


def test_it_keeps_its_slot_when_it_asks_again() -> None:
    world = World()
    consumer = assigning(world)
    before = dict(consumer.positions)
    consumer.reset()
    assert consumer.positions == before
    assert len(world.pool.members.groupless) == 1


def test_a_member_that_has_expired_stands_nowhere_until_it_has_learnt_so() -> None:
    world = World()
    consumer, _ = world.consumer(), world.consumer("b")
    tool = world.connect()
    world.do(world.cluster.groups.leave(tool, "x", GROUP, ((consumer.member_id, None),), world.now))
    committed, _ = world.cluster.committed_offsets(
        consumer.coordinator, "c", GROUP, consumer.member_id, NAMES, world.now
    )
    assert committed.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("has_expired", [False, True])
def test_a_member_that_has_left_may_assign_itself_partitions_on_its_connection(
    protocol: Protocol, has_expired: bool
) -> None:
    world = World()
    consumer = world.consumer(protocol=protocol)
    if has_expired:
        world.advance(200.0)
        assert not world.cluster.pools
    consumer.leave()
    consumer.member_id, consumer.generation = NOBODY, -1
    consumer.reset()
    consumer.fetch(wait=30.0)
    world.produce(0, 3)
    assert len(consumer.received) == 3
    assert error_of(world, consumer.commit()) == {ErrorCode.NONE}
    assert world.stored[source(0)] == 3
    world.check()


def test_an_unknown_partition_has_no_position() -> None:
    world = World()
    consumer = world.consumer()
    committed, _ = world.cluster.committed_offsets(
        consumer.coordinator, "c", GROUP, consumer.member_id, [(ORDERS, 0), (ORDERS, 9)], world.now
    )
    assert committed.offsets[ORDERS, 9] == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert committed.offsets[ORDERS, 0][0] is ErrorCode.NONE


# ListOffsets


def test_earliest_is_0_latest_lies_above_everything_and_no_other_time_is_known() -> None:
    world = World()
    consumer = world.consumer()
    assert world.cluster.list_offset(-2) == 0
    assert world.cluster.list_offset(-1) > consumer.positions[0]
    assert world.cluster.list_offset(-1) & 0xFFFFFFFF == 0xFFFFFFFF
    assert world.cluster.list_offset(1_700_000_000_000) == -1


# Connections that end in every state


@pytest.mark.parametrize("state", ["new", "joining", "joined", "parked", "collected", "sent", "committing", "stranger"])
def test_a_client_may_die_in_every_state_and_nothing_is_lost(state: str) -> None:
    world = World(PoolSettings(linger=100.0), auto_store=False)
    witness = world.consumer("witness")
    world.produce(0, 4)
    consumer = world.consumer("victim", joined=state not in ("new", "joining", "stranger"))
    match state:
        case "joining":
            coordinator = world.pool.coordinator
            request = coordinator.members[witness.member_id].request
            world.do(world.cluster.groups.join(consumer.coordinator, "join", GROUP, request, world.now))
        case "parked":
            consumer.fetch(partitions=[1], wait=30.0)
        case "collected":
            consumer.fetch(minimum=100_000, wait=30.0)
        case "sent" | "committing":
            consumer.fetch()
            if state == "committing":
                consumer.commit({0: consumer.positions[0] - 2})
        case "stranger":
            consumer.positions = {0: (3 << 32) + 12_345}
            consumer.fetch(wait=30.0)
        case _:
            pass
    consumer.disconnect()
    world.check()
    while world.pending_stores:
        world.store()
    world.advance(3.1)
    witness.fetch()
    acknowledged = 2 if state == "committing" else 0
    assert [value for _, _, value in witness.received] == [
        value_of(source(0), offset) for offset in range(acknowledged, 4)
    ]
    assert list(world.pool.members.by_id) == [witness.member_id]
    assert len(world.cluster.connections) == 2
    world.check()


def test_a_connection_that_nobody_knows_may_close() -> None:
    world = World()
    world.do(world.cluster.disconnected(ConnectionId(99), world.now))


def test_a_fetch_without_partitions_waits_and_is_answered() -> None:
    world = World()
    consumer = world.consumer(joined=False)
    consumer.fetch(partitions=[], wait=0.5)
    assert consumer.is_parked
    world.advance(0.5)
    assert not consumer.is_parked
    assert not world.cluster.pools


def test_members_are_told_apart_by_their_ids_on_one_connection() -> None:
    """OffsetFetch carries the member id from v9 on."""
    world = World()
    first, second = world.consumer("a"), world.consumer("b")
    committed, _ = world.cluster.committed_offsets(first.coordinator, "a", GROUP, second.member_id, NAMES, world.now)
    assert committed.offsets[ORDERS, 0][1] == second.positions[0]
    assert MemberId("") not in world.pool.members.by_id


def test_without_a_slot_a_client_is_refused_and_no_pool_suffers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    member = world.consumer("a")
    monkeypatch.setattr(Slots, "has_room", property(lambda _: False))
    late = world.consumer("b", joined=False)
    assert late.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    committed, _ = world.cluster.committed_offsets(late.coordinator, "b", GROUP, "", NAMES, world.now)
    assert committed.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert member.heartbeat() is ErrorCode.NONE
    assert world.cluster.violations == 0


def test_as_many_consumers_without_a_member_id_as_members_are_kept_of_a_group() -> None:
    world = World(PoolSettings(max_members=2))
    connections = [world.connect() for _ in range(3)]
    errors = [
        world.cluster.committed_offsets(connection, "a", GROUP, "", NAMES, world.now)[0].error
        for connection in connections
    ]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert world.cluster.violations == 0
