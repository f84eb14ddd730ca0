"""Members of one group share the records of two clusters: all of them, each once, in fair parts, without rebalances."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from benchmarks.clients import RESTLESS, SHARING, PythonClient, report_of, so_far
from tests.integration.bench import Bench, until_without_lag
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.records import jain_index


@pytest.mark.timeout(240)
@pytest.mark.alone  # Members that lack CPU ask less often, and get less.
def test_eight_members(bench: Bench) -> None:
    bench.start_mesh()
    with bench.feeding(40_000, rate=3_000):
        for number in (1, 2):
            bench.confluent(f"confluent-{number}").until_assigned()
            bench.java(f"java-{number}").until_assigned()
            bench.kcat(f"kcat-{number}").until_assigned()
            bench.confluent(f"committing-{number}", commit="sync").until_assigned()
    bench.account_when_all_arrived().assert_each_once()

    before = {member.name: len(member.deliveries) for member in bench.members}
    bench.feed(60_000, rate=3_000)
    account = bench.account_when_all_arrived()
    account.assert_each_once()
    assert account.stored == 100_000
    shares = {member.name: len(member.deliveries) - before[member.name] for member in bench.members}

    for member in bench.members:
        assert member.events["assigned"] == 1, f"{member.name}: {member.events}"
        assert not member.events["revoked"] + member.events["lost"], f"{member.name}: {member.events}"
    for cluster in bench.clusters:
        until_without_lag(cluster, bench.group)
    bench.close_members()
    assert jain_index(shares.values()) >= 0.95, shares


def test_more_members_than_partitions(bench: Bench) -> None:
    bench.start_mesh()
    for number in range(7):
        bench.confluent(f"member-{number}", commit="sync").until_assigned()
    bench.feed(14_000, rate=2_000)
    bench.account_when_all_arrived().assert_each_once()
    shares = Counter(delivery.member for delivery in bench.deliveries())
    assert len(shares) == 7, shares
    assert jain_index(shares.values()) >= 0.95, shares


def test_slow_member_holds_nobody_back(bench: Bench) -> None:
    mesh = bench.start_mesh()
    slow = bench.confluent("slow", commit="sync", records_per_poll=1, seconds_per_record=0.5)
    others = [bench.confluent(f"quick-{number}", commit="sync") for number in (1, 2)]
    for member in bench.members:
        member.until_assigned()
    bench.feed(60, rate=30)  # a member is known from its first commit on
    bench.until_all_committed()
    assert all(member.deliveries for member in bench.members)
    bench.feed(10_000)

    def all_but_held() -> bool:
        # Records on their way to the others count only when they arrive.
        taken = len(bench.deliveries(others)) + len(slow.deliveries) + mesh.in_flight(slow.name)
        return taken >= 10_060 and not mesh.metric("kafka_mesh_backlog_records")

    eventually("nothing waits but what the slow member holds", all_but_held)
    assert len(bench.deliveries(others)) >= 9_500
    slow.close()
    bench.account_when_all_arrived().assert_each_once()


MANY = 1_500_000
"""Small records of each cluster: seconds of work for clients that do nothing else."""


def fill(cluster: KafkaCluster, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 50, "queue.buffering.max.messages": MANY}
    )
    for number in range(MANY):
        producer.produce(topic, b"x" * 100, partition=number // 160 % 3)
    assert producer.flush(120) == 0


@pytest.mark.long
@pytest.mark.kafka
def test_a_member_that_joins_a_catch_up_late_has_a_part_of_it(bench: Bench) -> None:
    """One member has read alone, at full rate, and has committed. Members that joined then used to get 0.01 of an equal
    part of the rest until they committed, seconds later."""
    mesh = bench.start_mesh()
    for cluster in bench.clusters:
        fill(cluster, bench.topic)
    often, rarely = (json.dumps({**SHARING, **RESTLESS, "auto.commit.interval.ms": each}) for each in ("200", "5000"))
    consumer = ("benchmarks.confluent_consumer", mesh.bootstrap_servers, bench.group, bench.topic, str(2 * MANY))

    def committed() -> int:
        return sum(sum(cluster.committed(bench.group).values()) for cluster in bench.clusters)

    with ExitStack() as stack:
        clients = [PythonClient(*consumer, often), *(PythonClient(*consumer, rarely, "late") for _ in range(3))]
        for client in clients:
            stack.callback(client.end)
            client.until("ready")
        clients[0].say("go")
        eventually("the first one has committed", lambda: committed() > 0, interval=0.01)
        for client in clients[1:]:
            client.say("go")
        eventually("all is committed", lambda: committed() == 2 * MANY, timeout=100)
        for client in clients:
            client.say("enough")
        reports = [report_of(client) for client in clients]
    joined = max(each[0][0] for each in reports[1:])
    parts = [each[-1][1] - so_far(each, joined) for each in reports]
    assert sum(parts) >= MANY / 2, f"it was over before they came: {parts}"
    assert min(parts[1:]) >= 0.1 * sum(parts) / len(parts), parts


@pytest.mark.long
@pytest.mark.kafka
def test_members_without_a_group(bench: Bench) -> None:
    bench.start_mesh(group_less=bench.group)
    bench.kcat("kcat", "-C", "-o", "beginning", "-t", bench.topic)
    bench.confluent("assigned", partitions=tuple(range(6)), commit="none")
    with bench.feeding_throughout(rate=1_000):
        for member in bench.members:
            member.until_delivered(500)
    bench.account_when_all_arrived().assert_each_once()


def test_member_that_starts_at_the_latest(bench: Bench) -> None:
    """The group's own start applies, not the member's reset: stored records come as well."""
    bench.start_mesh()
    bench.feed(1_000)
    bench.confluent("latest", properties={"auto.offset.reset": "latest"}).until_assigned()
    bench.feed(1_000)
    bench.account_when_all_arrived().assert_each_once()


def test_groupless_member_that_starts_at_the_end(bench: Bench) -> None:
    bench.start_mesh(group_less=bench.group)
    bench.kcat("kcat", "-C", "-o", "end", "-t", bench.topic)
    bench.feed(2_000, rate=1_000)
    bench.account_when_all_arrived().assert_each_once()
