"""One group with a member of each client."""

from __future__ import annotations

import pytest

from tests.clients.bench import KNOWN_TO_ALL, Client, ClientBench
from tests.clients.test_deaths import LASTING
from tests.integration.processes import eventually


@pytest.mark.long
@pytest.mark.timeout(240)
def test_one_group_of_all_clients(bench: ClientBench) -> None:
    """They join one after the other while records flow; when all have joined, each gets its share."""
    bench.compress_with(*KNOWN_TO_ALL)
    bench.start_mesh()
    with bench.feeding(8_000, rate=500):
        for client in Client:
            bench.joined(client, client.value.strip("@").replace("/", "-"))
        bench.java("verifiable").until_assigned()
    bench.account().assert_each_once()
    before = {member.name: len(member.deliveries) for member in bench.members}

    def without_share() -> list[str]:
        return [member.name for member in bench.members if len(member.deliveries) - before[member.name] < 100]

    with bench.feeding_throughout(rate=1_500):
        eventually("each has its share", lambda: not without_share(), timeout=60)
    bench.account().assert_each_once()
    for member in bench.members:
        assert not member.events["revoked"] + member.events["lost"] + member.events["error"], member.events
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.long
@pytest.mark.timeout(240)
def test_restarted_mesh_under_all_clients(bench: ClientBench) -> None:
    """The mesh is stopped and started again under one group of all clients, as for a new version."""
    bench.compress_with(*KNOWN_TO_ALL)
    mesh = bench.start_mesh()
    for client in LASTING:
        bench.joined(client, client.value.strip("@").replace("/", "-"), commit="sync")
    with bench.feeding(4_000, rate=500):
        for member in bench.members:
            member.until_delivered(20)
        mesh.stop()
        mesh.restart()
    before = {member.name: len(member.deliveries) for member in bench.members}

    def all_go_on() -> bool:
        bench.feed(200)
        return all(len(member.deliveries) > before[member.name] for member in bench.members)

    eventually("each gets records again", all_go_on, interval=0.2, timeout=60)
    bench.account().assert_nothing_lost_or_altered()
    bench.until_all_committed()
    for member in bench.members:
        member.assert_running()
