"""Where a client asks to start means nothing to a group, and a group-less one starts at what comes next."""

from __future__ import annotations

import pytest

from tests.clients.bench import Client, ClientBench
from tests.clients.selection import clients

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
