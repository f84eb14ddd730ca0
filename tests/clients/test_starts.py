"""A client's start setting has no effect in a group, and a consumer without a group starts at the next record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients.bench import Client, ClientBench
from tests.clients.selection import OFTEN, clients
from tests.integration.members import KcatMember, Member
from tests.integration.processes import eventually
from tests.integration.records import account

# The node clients need a group.
WITHOUT_GROUP = [client for client in Client if client not in (Client.KAFKAJS, Client.PLATFORMATIC)]
# With a group, the others subscribe.
ASSIGNS_WITH_GROUP = (Client.CONFLUENT, Client.JAVA, Client.KAFKA_PYTHON, Client.AIOKAFKA)


def feed_until_each_gets_records(bench: ClientBench, members: Sequence[Member]) -> None:
    """Feeds until each member gets records, because a member without a group reports no start."""

    def all_get_records() -> bool:
        bench.feed(400, rate=800)
        return all(member.deliveries for member in members)

    eventually("each gets records", all_get_records)


@pytest.mark.parametrize("client", clients(often=OFTEN))
def test_reset_of_a_group(bench: ClientBench, client: Client) -> None:
    """Three groups, one for each `auto.offset.reset`. The group's own start rules: it also gets stored records, and no
    client has a reason to fail.

    kafkajs, sarama and kafka-go have no `none`; anything but `earliest` is the latest.
    """
    bench.start_mesh()
    bench.feed(500)
    groups = {reset: f"{bench.group}-{reset}" for reset in ("earliest", "latest", "none")}
    members = [bench.joined(client, reset, reset=reset, group=group) for reset, group in groups.items()]
    bench.feed(500)
    for member, group in zip(members, groups.values(), strict=True):
        bench.account_when_all_arrived(members=[member]).assert_each_once()
        assert not member.events["error"], member.events
        bench.until_all_committed(group)


@pytest.mark.parametrize("client", clients(WITHOUT_GROUP, often=OFTEN))
def test_without_group(bench: ClientBench, client: Client) -> None:
    """Two members of one application that assign themselves everything, one from the earliest, one from the latest:
    each record comes to one of them, also records stored before the first one comes."""
    bench.start_mesh(group_less=bench.group)
    bench.feed(500)
    members = [
        bench.member(client, reset, group=None, partitions=6, reset=reset, commit="none")
        for reset in ("latest", "earliest")
    ]
    feed_until_each_gets_records(bench, members)
    bench.account().assert_each_once()


@pytest.mark.long
@pytest.mark.parametrize("client", [Client.CONFLUENT, Client.JAVA])
def test_assigned_with_group_when_the_mesh_is_killed(bench: ClientBench, client: Client) -> None:
    """It commits by itself, and continues in its group: all later records are committed there."""
    mesh = bench.start_mesh(group_less=f"{bench.group}-less")
    member = bench.member(client, "member", partitions=6, commit="auto")
    feed_until_each_gets_records(bench, [member])
    bench.account().assert_each_once()
    bench.until_all_committed()
    mesh.kill()
    at_kill = len(member.deliveries)
    mesh.restart()

    def is_served() -> bool:
        bench.feed(10)
        return len(member.deliveries) > at_kill

    eventually("it gets records again", is_served, interval=0.5, timeout=60)
    bench.account().assert_nothing_lost_or_altered()
    bench.until_all_committed()
    member.assert_running()


@pytest.mark.parametrize("client", clients(ASSIGNS_WITH_GROUP, often=OFTEN))
def test_assigned_with_group(bench: ClientBench, client: Client) -> None:
    """Two members that assign themselves everything, and commit to their group without joining it."""
    bench.start_mesh()
    bench.feed(1_000)
    members = [bench.member(client, commit, partitions=6, commit=commit) for commit in ("auto", "sync")]
    feed_until_each_gets_records(bench, members)
    bench.account().assert_each_once()
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.parametrize("has_group", [False, pytest.param(True, marks=pytest.mark.long)])
def test_kcat_until_the_end(bench: ClientBench, tmp_path: Path, has_group: bool) -> None:
    """`kcat -e` ends when it has all records, as with a broker: even if its first Fetches get empty answers, because
    the mesh has only begun to read."""
    mesh = bench.start_mesh(group_less=bench.group)
    bench.feed(4_000)

    def until_the_end(name: str, address: str) -> KcatMember:
        start = ("-b", address, "-e", "-X", "auto.offset.reset=earliest", "-X", "fetch.wait.max.ms=10")
        what = ("-G", bench.group, bench.topic) if has_group else ("-C", "-o", "beginning", "-t", bench.topic)
        member = KcatMember(name, [*start, *what], tmp_path)
        assert member.process.wait(30) == 0, member.process.log_tail()
        return member

    account(bench.stored(), until_the_end("through", mesh.bootstrap_servers).deliveries).assert_each_once()
    if not has_group:  # the group's position is the end
        with_brokers = [until_the_end(cluster.name, cluster.bootstrap_servers) for cluster in bench.clusters]
        account(bench.stored(), bench.deliveries(with_brokers)).assert_each_once()
