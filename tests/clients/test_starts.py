"""Where a client asks to start means nothing to a group, and a group-less one starts at what comes next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.bench import Client, ClientBench
from tests.clients.selection import clients
from tests.integration.members import KcatMember
from tests.integration.records import account

WITHOUT_GROUP = (Client.CONFLUENT, Client.AIOKAFKA, Client.KAFKA_PYTHON, Client.KCAT)


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
@pytest.mark.parametrize("client", clients())
def test_reset_of_a_group(bench: ClientBench, client: Client, reset: str) -> None:
    """The group's own start rules: it gets what is stored already as well, and no client has a reason to fail.

    kafkajs has no `none`; anything but `earliest` is the latest.
    """
    bench.start_mesh()
    bench.feed(500)
    member = bench.joined(client, "member", reset=reset)
    bench.feed(500)
    bench.account().assert_each_once()
    assert not member.events["error"], member.events
    bench.until_all_committed()


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("client", clients(WITHOUT_GROUP))
def test_without_group(bench: ClientBench, client: Client, reset: str) -> None:
    """Two members of one application that assign themselves everything: each record comes to one of them."""
    bench.start_mesh(group_less=bench.group)
    members = [
        bench.member(client, name, group=None, partitions=6, reset=reset, commit="none") for name in ("one", "two")
    ]
    bench.feed(2_000, rate=800)
    bench.account().assert_each_once()
    assert all(member.deliveries for member in members)


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
