"""Where a client asks to start means nothing to a group, and a group-less one starts at what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients.bench import Client, ClientBench
from tests.clients.selection import clients
from tests.integration.members import KcatMember, Member
from tests.integration.processes import eventually
from tests.integration.records import account

# The node clients cannot be without one.
WITHOUT_GROUP = [client for client in Client if client not in (Client.KAFKAJS, Client.PLATFORMATIC)]
# The others subscribe when they have a group.
ASSIGNS_WITH_GROUP = (Client.CONFLUENT, Client.JAVA, Client.KAFKA_PYTHON, Client.AIOKAFKA)


def feed_until_each_gets_records(bench: ClientBench, members: Sequence[Member]) -> None:
    """Nothing tells when one without a group has started."""

    def all_get_records() -> bool:
        bench.feed(400, rate=800)
        return all(member.deliveries for member in members)

    eventually("each gets records", all_get_records)


@pytest.mark.parametrize("client", clients())
def test_reset_of_a_group(bench: ClientBench, client: Client) -> None:
    """Three groups, one for each `auto.offset.reset`. The group's own start rules: it gets what is stored already as
    well, and no client has a reason to fail.

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


@pytest.mark.parametrize("client", clients(WITHOUT_GROUP))
def test_without_group(bench: ClientBench, client: Client) -> None:
    """Two members of one application that assign themselves everything, one from the earliest, one from the latest:
    each record comes to one of them, also what is stored already when the first one comes."""
    bench.start_mesh(group_less=bench.group)
    bench.feed(500)
    members = [
        bench.member(client, reset, group=None, partitions=6, reset=reset, commit="none")
        for reset in ("latest", "earliest")
    ]
    feed_until_each_gets_records(bench, members)
    bench.account().assert_each_once()


@pytest.mark.parametrize("client", clients(ASSIGNS_WITH_GROUP))
def test_assigned_with_group(bench: ClientBench, client: Client) -> None:
    """Two members that assign themselves everything, and commit to their group without having joined it."""
    bench.start_mesh()
    bench.feed(1_000)
    members = [bench.member(client, commit, partitions=6, commit=commit) for commit in ("auto", "sync")]
    feed_until_each_gets_records(bench, members)
    bench.account().assert_each_once()
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.parametrize("has_group", [False, pytest.param(True, marks=pytest.mark.long)])
def test_kcat_until_the_end(bench: ClientBench, tmp_path: Path, has_group: bool) -> None:
    """`kcat -e` ends when it has got everything, as it does with a broker: also when its first Fetches are answered
    with nothing, since the mesh has only begun to read."""
    mesh = bench.start_mesh(group_less=bench.group)
    bench.feed(4_000)

    def until_the_end(name: str, address: str) -> KcatMember:
        start = ("-b", address, "-e", "-X", "auto.offset.reset=earliest", "-X", "fetch.wait.max.ms=10")
        what = ("-G", bench.group, bench.topic) if has_group else ("-C", "-o", "beginning", "-t", bench.topic)
        member = KcatMember(name, [*start, *what], tmp_path)
        assert member.process.wait(30) == 0, member.process.log_tail()
        return member

    account(bench.stored(), until_the_end("through", mesh.bootstrap_servers).deliveries).assert_each_once()
    if not has_group:  # the group stands at the end
        with_brokers = [until_the_end(cluster.name, cluster.bootstrap_servers) for cluster in bench.clusters]
        account(bench.stored(), bench.deliveries(with_brokers)).assert_each_once()
