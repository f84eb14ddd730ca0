"""One group with a member of each client."""

from __future__ import annotations

import pytest

from tests.clients.bench import Client, ClientBench


@pytest.mark.long
@pytest.mark.timeout(240)
def test_one_group_of_all_clients(bench: ClientBench) -> None:
    """They come one after the other while records flow, and once all are there each gets its share."""
    bench.start_mesh()
    with bench.feeding(8_000, rate=500):
        for client in Client:
            bench.joined(client, client.value.strip("@").replace("/", "-"))
        bench.java("verifiable").until_assigned()
    bench.account(timeout=60).assert_each_once()
    before = {member.name: len(member.deliveries) for member in bench.members}
    bench.feed(9_000, rate=1_500)
    bench.account(timeout=60).assert_each_once()
    for member in bench.members:
        assert len(member.deliveries) - before[member.name] >= 300, member.name
        assert not member.events["revoked"] + member.events["lost"] + member.events["error"], member.events
    bench.until_all_committed()
    bench.close_members()
