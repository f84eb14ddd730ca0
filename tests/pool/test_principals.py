"""A member belongs to the principal that authenticated for it: no other principal gets its records or speaks in its
name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.results import CommitResult, ConsumerHeartbeatResult, LeaveResult
from mesh.pool.groups.consumer_protocol import ConsumerHeartbeat
from mesh.pool.groups.member_index import MOST_LOOKED_AT
from mesh.security.principals import user
from mesh.wire.errors import ErrorCode
from tests.pool.groups.test_coordinator import sync
from tests.pool.harness import GROUP, ORDERS, Consumer, World

ALICE, MALLORY = user("alice"), user("mallory")


def held(world: World) -> tuple[Consumer, Consumer]:
    """A member of alice that holds 10 records of partition 0, and a client of mallory with the same position, name and
    host."""
    alice = world.consumer(principal=ALICE)
    world.produce(0, 10)
    before = dict(alice.positions)
    alice.fetch()
    assert len(alice.received) == 10
    mallory = world.consumer(joined=False, principal=MALLORY, positions=before)
    return alice, mallory


@pytest.mark.parametrize("ahead", [0, 3, 10])
def test_the_offsets_of_a_member_do_not_get_its_records_for_another_principal(ahead: int) -> None:
    world = World(rules=GroupRules(group_less=None))
    alice, mallory = held(world)
    mallory.positions[0] += ahead
    mallory.fetch(partitions=[0])
    world.produce(0, 10)
    world.advance(1)
    assert mallory.received == []
    alice.fetch()
    assert len(alice.received) == 20  # it still fetches, and keeps what it held


def test_nor_where_consumers_without_a_group_are_served() -> None:
    world = World()
    alice, mallory = held(world)
    mallory.fetch()
    world.advance(world.pool._settings.unidentified_grace + 1)
    mallory.fetch()  # as a groupless one from now on, in a pool of their own
    world.produce(0, 10)
    assert mallory.received == []
    alice.fetch()
    assert len(alice.received) == 20


def test_a_client_that_seeks_is_not_taken_for_the_member_of_another_principal() -> None:
    world = World(rules=GroupRules(group_less=None))
    world.consumer(principal=ALICE)  # about to fetch
    mallory = world.consumer(joined=False, principal=MALLORY, positions={0: 0, 1: 0, 2: 0, 3: 0})
    world.produce(0, 10)
    mallory.fetch()
    world.advance(1)
    assert mallory.received == []


def test_the_member_id_of_another_principal_is_that_of_nobody() -> None:
    world = World()
    alice, mallory = held(world)
    mallory.member_id, mallory.generation = alice.member_id, alice.generation
    assert mallory.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert sync(mallory).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert mallory.join().error is ErrorCode.UNKNOWN_MEMBER_ID
    result = world.answer(mallory.commit({0: alice.positions[0]}), CommitResult)
    assert result.errors == {(ORDERS, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    for epoch in (-1, alice.generation):
        committed, _ = world.cluster.committed_offsets(
            mallory.coordinator, "c", GROUP, alice.member_id, [(ORDERS, 0)], world.now, epoch
        )
        assert committed.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.stored == {}
    world.commits.clear()
    assert alice.heartbeat() is ErrorCode.NONE
    world.answer(alice.commit(), CommitResult)
    assert list(world.stored.values()) == [10]


def test_nor_does_the_consumer_protocol_take_it() -> None:
    world = World()
    alice = world.consumer(joined=False, principal=ALICE)
    mallory = world.consumer(joined=False, principal=MALLORY)
    heartbeat = ConsumerHeartbeat(
        member_id=alice.member_id,
        epoch=0,
        instance_id=None,
        rebalance_timeout=60.0,
        topics=(ORDERS,),
        assignor=None,
        owned={},
        client=alice.client,
    )
    world.do(world.cluster.groups.consumer_heartbeat(alice.coordinator, "a", GROUP, heartbeat, world.now))
    member_id = world.answer("a", ConsumerHeartbeatResult).member_id
    for epoch in (0, 1):
        theirs = replace(heartbeat, member_id=member_id, epoch=epoch, client=mallory.client)
        world.do(world.cluster.groups.consumer_heartbeat(mallory.coordinator, "m", GROUP, theirs, world.now))
        assert world.answer("m", ConsumerHeartbeatResult).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_consumer_without_a_member_id_commits_only_its_own() -> None:
    world = World()
    alice = world.consumer(joined=False, principal=ALICE)
    alice.reset()  # assign() mode
    world.produce(0, 10)
    alice.fetch()
    assert len(alice.received) == 10
    mallory = world.consumer(joined=False, principal=MALLORY)
    result = world.answer(mallory.commit({0: alice.positions[0]}), CommitResult)
    assert result.errors == {(ORDERS, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert world.stored == {}


def test_committing_what_was_sent_on_a_guess_does_not_make_one_member_of_two_principals() -> None:
    world = World()
    alice = world.consumer(principal=ALICE)
    guessed = world.consumer(joined=False, principal=ALICE, positions={0: 0})
    world.produce(0, 10)
    guessed.fetch(partitions=[0])
    assert len(guessed.received) == 10  # taken for alice's member
    mallory = world.consumer(principal=MALLORY)
    before = mallory.member_id
    result = world.answer(mallory.commit({0: guessed.positions[0]}), CommitResult)
    assert result.errors == {(ORDERS, 0): ErrorCode.OFFSET_OUT_OF_RANGE}
    assert world.pool.members.by_id[before].client.principal == MALLORY
    assert world.pool.members.by_id[alice.member_id].client.principal == ALICE


def test_a_client_with_a_new_principal_becomes_a_new_member_and_nothing_is_lost() -> None:
    """A client whose certificate was replaced by one with another name."""
    world = World()
    alice, renamed = held(world)
    alice.disconnect()
    renamed.member_id, renamed.generation = alice.member_id, alice.generation
    assert renamed.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    renamed.member_id = Consumer(world, "c", renamed.coordinator, renamed.fetching).member_id
    assert renamed.join().error is ErrorCode.NONE
    world.advance(5)
    renamed.fetch()
    assert len(renamed.received) == 10


def test_a_tool_may_remove_members_of_others_and_a_static_member_is_replaced_by_its_instance_id() -> None:
    """As in Kafka."""
    world = World()
    alice = world.consumer(principal=ALICE)
    tool = world.connect(MALLORY)
    world.do(world.cluster.groups.leave(tool, "l", GROUP, ((alice.member_id, None),), world.now))
    assert world.answer("l", LeaveResult).members[0][2] is ErrorCode.NONE
    assert not world.cluster.connections[tool].members
    first = world.consumer(instance_id="pod-1", principal=ALICE)
    second = world.consumer(instance_id="pod-1", principal=MALLORY)
    assert first.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert second.heartbeat() is ErrorCode.NONE


def test_what_tools_asked_is_remembered_by_principal() -> None:
    world = World()
    tools, connection = world.cluster.tools, world.cluster.connections[world.connect()]
    tools.noticed(ClientIdentity("c", "h", MALLORY), world.now)
    assert tools.is_tool(connection, ClientIdentity("c", "h", MALLORY), world.now)
    assert not tools.is_tool(connection, ClientIdentity("c", "h", ALICE), world.now)


def test_to_find_the_member_that_is_about_to_fetch_takes_as_many_steps_with_a_thousand_members_as_with_ten() -> None:
    def steps(others: int) -> int:
        world = World()
        for number in range(others):
            busy = world.consumer(str(number))
            busy.fetch(wait=1000)
            world.consumer("c").fetch(wait=1000)
        expected = world.consumer("c")
        before = world.cluster.clients.looked_at
        seeker = world.consumer("c", joined=False, positions={0: 0})
        seeker.fetch()
        member = world.pool.members.by_id[expected.member_id]
        assert world.cluster.connections[seeker.fetching].fetching is member
        return world.cluster.clients.looked_at - before

    assert steps(5) == steps(500) == 1


def test_nor_more_when_none_of_them_is() -> None:
    world = World()
    for _ in range(5 * MOST_LOOKED_AT):
        world.consumer("c").fetch(wait=1000)
    before = world.cluster.clients.looked_at
    world.consumer("c", joined=False, positions={0: 0}).fetch()
    assert world.cluster.clients.looked_at - before == MOST_LOOKED_AT


def test_clients_are_forgotten_with_their_last_member() -> None:
    world = World()
    consumers = [world.consumer("c") for _ in range(3)] + [world.consumer("d")]
    for consumer in consumers:
        consumer.fetch()
        consumer.leave()
        consumer.disconnect()
    clients = world.cluster.clients
    assert not clients._by_client
    assert not clients._by_member
    assert not world.cluster.connections._fetching
