"""A plan depends on its seed alone."""

from __future__ import annotations

from tests.chaos.plan import Fault, Kind, plan

SEEDS = range(200)


def test_a_seed_is_a_plan() -> None:
    for seed in SEEDS:
        assert plan(seed, 60.0) == plan(seed, 60.0)
    assert len({str(plan(seed, 60.0)) for seed in SEEDS}) == len(SEEDS)


def test_a_shorter_run_is_the_beginning_of_a_longer_one() -> None:
    for seed in SEEDS:
        short, long = plan(seed, 20.0), plan(seed, 60.0)
        assert short.setup == long.setup
        assert short.steps == long.steps[: len(short.steps)]
        assert 0 < len(short.steps) < len(long.steps)


def test_everything_happens() -> None:
    plans = [plan(seed, 60.0) for seed in SEEDS]
    assert {step.fault for each in plans for step in each.steps} == set(Fault)
    assert {kind for each in plans for kind in each.setup.members} == set(Kind)
    assert {each.setup.meshes for each in plans} == {1, 2, 3}
    assert (
        {each.setup.has_transactions for each in plans} == {each.setup.is_compacted for each in plans} == {True, False}
    )
    assert {bool(each.setup.poison) for each in plans} == {True, False}
    assert {each.setup.has_second_brokers for each in plans} == {True, False}


def test_what_a_setup_cannot_have_does_not_happen() -> None:
    for each in (plan(seed, 60.0) for seed in SEEDS):
        faults = {step.fault for step in each.steps}
        assert Fault.LOSE_LEADERS not in faults or (each.setup.has_second_brokers and each.setup.partitions > 1)
        assert Fault.RECREATE_TOPIC not in faults or not each.setup.poison


def test_nobody_commits_what_was_to_kill_it() -> None:
    poisoned = [each.setup for each in (plan(seed, 1.0) for seed in SEEDS) if each.setup.poison]
    assert poisoned
    assert not any(kind.commits_by_itself for setup in poisoned for kind in setup.members)


def test_every_run_has_a_mix() -> None:
    for seed in SEEDS:
        each = plan(seed, 60.0)
        assert len({step.fault for step in each.steps}) >= 8
        members = set(each.setup.members)
        if Kind.SHARE in members:
            continue  # in place of some of the others
        assert {Kind.KAFKA_PYTHON, Kind.AIOKAFKA} <= members
        assert members & {Kind.CONFLUENT, Kind.CONFLUENT_CONSUMER_PROTOCOL}
        assert members & {Kind.JAVA, Kind.JAVA_CONSUMER_PROTOCOL}
