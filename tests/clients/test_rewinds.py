"""Clients that pause, seek back, throw, or are away for too long: no record is lost, and only expected ones come
again."""

from __future__ import annotations

import pytest

from tests.clients.bench import Client, ClientBench, ScriptedMember
from tests.clients.selection import OFTEN, clients
from tests.integration.members import Member
from tests.integration.records import Account

# The stream of @platformatic/kafka can neither pause a partition nor seek, nor can a group's reader of kafka-go.
PAUSING = [client for client in Client if client not in (Client.KCAT, Client.PLATFORMATIC, Client.SEGMENTIO)]
# A session of sarama cannot seek back.
SEEKING = [client for client in PAUSING if client is not Client.SARAMA]
# kcat has no handler.
WITH_FAILING_HANDLER = [client for client in Client if client is not Client.KCAT]
# These leave their group when the application does not poll for too long.
WITH_POLL_INTERVAL = (Client.AIOKAFKA, Client.CONFLUENT, Client.JAVA, Client.KAFKA_PYTHON)
# These keep sending heartbeats (kafkajs: without them) while a handler hangs. sarama and @platformatic/kafka also keep
# fetching while their buffers have room: they look like working members.
WITHOUT_POLL_INTERVAL = (Client.KAFKAJS, Client.FRANZ, Client.SEGMENTIO)
STALL = 14.0


def acting(bench: ClientBench, client: Client, act: str, **script: object) -> ScriptedMember:
    member = bench.joined(client, "acting", act=act, act_after=150, **script)
    assert isinstance(member, ScriptedMember)
    return member


def assert_same_offsets(account: Account, member: Member) -> None:
    """Asserts that repeated records came to that member, at the same virtual offsets."""
    for several in account.twice.values():
        assert len(several) == 2, str(account)
        assert {(each.member, each.partition, each.offset) for each in several} == {
            (member.name, several[0].partition, several[0].offset)
        }, several


@pytest.mark.parametrize("client", clients(PAUSING, often=OFTEN))
def test_pause(bench: ClientBench, client: Client) -> None:
    bench.start_mesh()
    member = acting(bench, client, "pause")
    bench.feed(2_000, rate=1_000)
    member.until_acted()
    bench.account().assert_each_once()
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.parametrize("client", clients(SEEKING, often=OFTEN))
def test_seek_back(bench: ClientBench, client: Client) -> None:
    """Back to the first uncommitted record: the same records come again, at the same offsets."""
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


@pytest.mark.parametrize("client", clients(WITH_FAILING_HANDLER, often=OFTEN))
def test_failing_handler(bench: ClientBench, client: Client) -> None:
    """kafkajs and sarama restart by themselves; the others are closed and created again."""
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


@pytest.mark.parametrize("client", clients(WITH_POLL_INTERVAL, often=OFTEN))
def test_away_for_too_long(bench: ClientBench, client: Client) -> None:
    """The handler takes longer than max.poll.interval: the client leaves, and the other member gets its records."""
    bench.start_mesh()
    _assert_others_get_what_it_holds(bench, client)


@pytest.mark.parametrize("client", clients(WITHOUT_POLL_INTERVAL, often=OFTEN))
def test_hangs_for_too_long(bench: ClientBench, client: Client) -> None:
    """The client does not notice; lock_timeout makes up for it. With kafkajs heartbeats hang, too."""
    bench.start_mesh(lock_timeout="6s")
    _assert_others_get_what_it_holds(bench, client)


def _assert_others_get_what_it_holds(bench: ClientBench, client: Client) -> None:
    limits = {"max_poll_interval": 6_000, "session_timeout": 6_000}
    member = acting(bench, client, "stall", commit="sync", act_seconds=STALL, **limits)
    other = bench.joined(client, "other", commit="sync", **limits)
    bench.feed(2_000, rate=1_000)
    shown = bench.account_when_all_arrived(timeout=STALL + 8, members=[other, member])
    shown.assert_nothing_lost_or_altered()
    assert not member.events["acted"], "it still hangs"
    member.until_acted()
    bench.feed(1_000)
    account = bench.account()
    account.assert_nothing_lost_or_altered()
    bench.until_all_committed()
    assert not other.events["revoked"] + other.events["lost"], other.events
    bench.close_members()
