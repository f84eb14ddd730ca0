"""A member is killed, the mesh is killed, a static member comes back: no record is lost, and few come twice."""

from __future__ import annotations

import pytest

from tests.clients.bench import Client, ClientBench
from tests.clients.selection import OFTEN, clients
from tests.integration.processes import eventually
from tests.integration.relay import Relay

# kcat ends when it finds no broker.
LASTING = [client for client in Client if client is not Client.KCAT]
# kafkajs and kafka-go have no instance ids.
STATIC = [client for client in Client if client not in (Client.KAFKAJS, Client.SEGMENTIO)]


def commits(client: Client) -> str:
    """kcat has only its own commits."""
    return "auto" if client is Client.KCAT else "sync"


@pytest.mark.smoke
@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_killed_member(bench: ClientBench, client: Client) -> None:
    """kill -9 of one of two: only records that it had shown come twice, to the other one."""
    mesh = bench.start_mesh()
    doomed = bench.joined(client, "doomed", commit=commits(client), seconds_per_record=0.002)
    other = bench.joined(client, "other", commit=commits(client))
    with bench.feeding(3_000, rate=1_500):
        doomed.until_delivered(100)
        eventually("it holds records", lambda: mesh.in_flight("doomed") > 0)
        doomed.kill()
        seen = {each.id for each in doomed.deliveries}
    account = bench.account()
    account.assert_nothing_lost_or_altered()
    assert account.twice.keys() <= seen, str(account)
    assert all(len(several) == 2 for several in account.twice.values()), str(account)
    bench.until_all_committed()
    assert not other.events["revoked"] + other.events["lost"], other.events


@pytest.mark.parametrize("client", clients(LASTING, often=OFTEN))
def test_restarted_mesh(bench: ClientBench, client: Client) -> None:
    """kill -9 of the mesh under two members: they continue by themselves."""
    mesh = bench.start_mesh()
    members = [bench.joined(client, name, commit=commits(client)) for name in ("member-1", "member-2")]
    with bench.feeding(4_000, rate=1_000):
        for member in members:
            member.until_delivered(200)
        mesh.kill()
        at_kill = {member.name: len(member.deliveries) for member in members}
        mesh.restart()

    def all_go_on() -> bool:
        bench.feed(100)
        return all(len(member.deliveries) > at_kill[member.name] for member in members)

    # Each in its own time: some wait for seconds before they reconnect.
    eventually("each gets records again", all_go_on, interval=0.2, timeout=45)
    bench.account().assert_nothing_lost_or_altered()
    bench.until_all_committed()
    for member in members:
        member.assert_running()


@pytest.mark.parametrize("client", clients(LASTING, often=OFTEN))
def test_cut_connections(bench: ClientBench, client: Client) -> None:
    """All connections of two members are reset, twice, while records flow: they reconnect and continue. Records of a
    lost answer are sent again; only a member that joins again may get its uncommitted ones."""
    relay = Relay()
    bench.start_mesh(relay)
    members = [bench.joined(client, name, commit=commits(client)) for name in ("member-1", "member-2")]
    with bench.feeding(4_000, rate=1_000):
        for count in (100, 400):
            for member in members:
                member.until_delivered(count)
            assert relay.cut() >= 2
    account = bench.account()
    account.assert_nothing_lost_or_altered()
    assert len(account.twice) <= 400, str(account)
    bench.until_all_committed()
    for member in members:
        member.assert_running()
    bench.close_members()
    relay.close()


@pytest.mark.parametrize("client", clients(STATIC, often=OFTEN))
def test_static_member_comes_back(bench: ClientBench, client: Client) -> None:
    """It is killed and restarted under its name: it gets its uncommitted records at once, not when a session ends."""
    mesh = bench.start_mesh(fast_expiry="5m")
    named = {"instance_id": "named", "session_timeout": 60_000, "commit": commits(client)}
    other = bench.joined(client, "other", commit=commits(client), session_timeout=60_000)
    before = bench.joined(client, "before", seconds_per_record=0.002, **named)
    with bench.feeding(3_000, rate=1_500):
        before.until_delivered(100)
        eventually("it holds records", lambda: mesh.in_flight("before") > 0)
        before.kill()
        seen = {each.id for each in before.deliveries}
        after = bench.joined(client, "after", **named)
    bench.feed(1_000, rate=1_000)
    account = bench.account()
    account.assert_nothing_lost_or_altered()
    assert account.twice.keys() <= seen, str(account)
    assert after.deliveries
    assert not other.events["revoked"] + other.events["lost"], other.events
    bench.until_all_committed()
