"""An upstream cluster that is down stops no member that works on the others (docs/decisions/0009)."""

from __future__ import annotations

from mesh.pool.common.results import CommitResult
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, US, World


def test_a_commit_waits_only_for_clusters_that_are_up() -> None:
    world = World(auto_store=False)
    consumer = world.consumer()
    world.produce(0)
    world.produce(2)
    consumer.fetch()
    ticket = consumer.commit()
    assert ticket not in world.answers
    world.upstream(lambda pool: pool.commits.cluster_down(US))
    assert ticket not in world.answers
    (eu,) = [each for each in world.pending_stores if each.cluster == EU]
    world.pending_stores.remove(eu)
    world.pending_stores.insert(0, eu)
    world.store()
    assert set(world.answer(ticket, CommitResult).errors.values()) == {ErrorCode.NONE}


def test_what_was_acknowledged_meanwhile_is_stored_when_the_cluster_is_back() -> None:
    world = World(auto_store=False)
    consumer = world.consumer()
    world.upstream(lambda pool: pool.commits.cluster_down(US))
    world.produce(2)
    consumer.fetch()
    ticket = consumer.commit()
    assert set(world.answer(ticket, CommitResult).errors.values()) == {ErrorCode.NONE}
    world.store(error=14)
    world.upstream(lambda pool: pool.commits.cluster_up(US))
    world.advance(1)
    world.store()
    assert sum(world.stored.values()) == 10


def test_a_commit_waits_for_a_group_that_refuses_us_since_its_coordinator_answers() -> None:
    world = World(auto_store=False)
    consumer = world.consumer()
    world.produce(2)
    consumer.fetch()
    world.upstream(lambda pool: pool.commits.group_down(US))
    assert world.pool.commits.is_down(US), "nothing is to be expected of it"
    ticket = consumer.commit()
    assert ticket not in world.answers
    world.store()
    assert set(world.answer(ticket, CommitResult).errors.values()) == {ErrorCode.NONE}
    world.upstream(lambda pool: pool.commits.group_up(US))
    assert not world.pool.commits.is_down(US)
