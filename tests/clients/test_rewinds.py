"""Clients that pause, seek back, throw, or are away for too long: nothing is lost, and comes again only where asked."""

from __future__ import annotations

import pytest

from tests.clients.bench import Client, ClientBench, ScriptedMember
from tests.clients.selection import clients
from tests.integration.members import Member
from tests.integration.records import Account

# kcat takes no script; the stream of @platformatic/kafka can be neither paused by partition nor sought.
SCRIPTED = [client for client in Client if client not in (Client.KCAT, Client.PLATFORMATIC)]
# franz-go has no handler.
WITH_FAILING_HANDLER = [client for client in SCRIPTED if client is not Client.FRANZ]
# franz-go knows no longest time between polls, the node clients none either.
WITH_POLL_INTERVAL = (Client.CONFLUENT, Client.JAVA, Client.KAFKA_PYTHON)


def acting(bench: ClientBench, client: Client, act: str, **script: object) -> ScriptedMember:
    member = bench.joined(client, "acting", act=act, act_after=150, **script)
    assert isinstance(member, ScriptedMember)
    return member


def assert_same_offsets(account: Account, member: Member) -> None:
    """What came twice came to that member, at the same virtual offsets."""
    for several in account.twice.values():
        assert len(several) == 2, str(account)
        assert {(each.member, each.partition, each.offset) for each in several} == {
            (member.name, several[0].partition, several[0].offset)
        }, several


@pytest.mark.parametrize("client", clients(SCRIPTED))
def test_pause(bench: ClientBench, client: Client) -> None:
    bench.start_mesh()
    member = acting(bench, client, "pause")
    bench.feed(2_000, rate=1_000)
    member.until_acted()
    bench.account().assert_each_once()
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.parametrize("client", clients(SCRIPTED))
def test_seek_back(bench: ClientBench, client: Client) -> None:
    """To the first record it has not committed: the same records come again, at the same offsets."""
    bench.start_mesh()
    member = acting(bench, client, "seek", commit="sync")
    bench.feed(2_000, rate=1_000)
    member.until_acted()
    account = bench.account()
    account.assert_nothing_lost_or_altered()
    assert len(account.twice) >= 100, str(account)
    assert_same_offsets(account, member)
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.parametrize("client", clients(WITH_FAILING_HANDLER))
def test_failing_handler(bench: ClientBench, client: Client) -> None:
    """kafkajs starts anew by itself; for the others the application closes its consumer and makes another one."""
    bench.start_mesh()
    commit = "auto" if client is Client.KAFKAJS else "sync"
    member = acting(bench, client, "throw", commit=commit)
    bench.feed(2_000, rate=1_000)
    member.until_acted()
    account = bench.account()
    account.assert_nothing_lost_or_altered()
    assert len(account.twice) <= 150, str(account)
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.parametrize("client", clients(WITH_POLL_INTERVAL))
def test_away_for_too_long(bench: ClientBench, client: Client) -> None:
    """The handler takes longer than max.poll.interval: the client leaves, the other member gets what it held."""
    bench.start_mesh()
    member = acting(
        bench, client, "stall", commit="sync", act_seconds=9.0, max_poll_interval=6_000, session_timeout=6_000
    )
    other = bench.joined(client, "other", commit="sync")
    bench.feed(2_000, rate=1_000)
    bench.account_when_all_arrived(timeout=20, members=[other, member]).assert_nothing_lost_or_altered()
    member.until_acted()
    bench.feed(1_000)
    account = bench.account()
    account.assert_nothing_lost_or_altered()
    assert {each.member for several in account.twice.values() for each in several} <= {"acting", "other"}
    bench.until_all_committed()
    assert not other.events["revoked"] + other.events["lost"], other.events
    bench.close_members()
