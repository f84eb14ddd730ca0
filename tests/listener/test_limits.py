"""What one client may take from the others: the decisions, and how a connection carries them out."""

from __future__ import annotations

import asyncio
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from mesh.listener.admission import MOST_LOGGED
from mesh.listener.limits import (
    LONGEST_THROTTLE,
    Admitted,
    ConnectionLimiter,
    Descriptors,
    Limits,
    RequestQuota,
    network_of,
    raise_descriptor_limit,
)
from mesh.memory import MemoryBudget
from mesh.runtime.pool.connection import MOST_AHEAD, MOST_QUEUED
from mesh.wire.apis import ApiKey
from tests.fake_time import in_fake_time
from tests.pool.apis.harness import join_values
from tests.runtime.pool.harness import HIGH_WATER, Bench, Peer
from tests.runtime.pool.test_connection import fetched
from tests.wire.entities import frame

ApiVersionsOfTheFuture = frame(b"\0\x12\0\x63" + bytes(4))


def closed(bench: Bench) -> dict[tuple[str, ...], float]:
    return bench.metric("kafka_mesh_connections_closed_total")


# Decisions


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a unix socket", "a unix socket"),
    ],
)
def test_a_host_counts_for_its_network(host: str, network: str) -> None:
    assert network_of(host) == network


@given(st.integers(1, 1_000), st.lists(st.floats(0, 0.1), min_size=1, max_size=300))
def test_a_client_that_rests_as_told_stays_below_the_rate(rate: int, pauses: list[float]) -> None:
    now, quota = 0.0, RequestQuota(rate, 0.0)
    for taken, pause in enumerate(pauses, 1):
        throttle = quota.charge_request(now)
        assert 0 <= throttle <= LONGEST_THROTTLE
        now += throttle + pause
        assert taken <= rate + rate * now + 1


def test_a_quota_gives_a_second_of_requests_at_once_and_forgives_after_a_second() -> None:
    quota = RequestQuota(100, 0.0)
    assert [quota.charge_request(0.0) for _ in range(100)] == [0.0] * 100
    assert quota.charge_request(0.0) == pytest.approx(0.01)
    assert not quota.is_full(0.5)
    assert quota.is_full(1.5)
    for _ in range(10_000):
        quota.charge_request(2.0)
    assert quota.charge_request(2.0) == LONGEST_THROTTLE, "never more, whoever does not listen"


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3))))
def test_a_connection_that_ends_makes_room(steps: list[tuple[bool, int]]) -> None:
    limits = Limits(connections=5, connections_per_address=2)
    descriptors = Descriptors(1_000)
    limiter = ConnectionLimiter(limits, descriptors)
    inside: list[Admitted] = []
    for enters, number in steps:
        if enters:
            admitted = limiter.enter(f"10.0.0.{number}", 0.0)
            of_address = [each for each in inside if each.host == f"10.0.0.{number}"]
            assert isinstance(admitted, Admitted) == (len(inside) < 5 and len(of_address) < 2)
            if isinstance(admitted, Admitted):
                inside.append(admitted)
        elif inside:
            limiter.leave(inside.pop(number % len(inside)))
        assert limiter.connections == len(inside) == descriptors.used


def test_unread_bytes_go_with_their_connection() -> None:
    limiter = ConnectionLimiter(Limits(), Descriptors(1_000))
    one, other = limiter.enter("a", 0.0), limiter.enter("b", 0.0)
    assert isinstance(one, Admitted)
    assert isinstance(other, Admitted)
    limiter.count_unread(one, 100)
    limiter.count_unread(other, 50)
    limiter.count_unread(one, 80)
    assert limiter.unread == 130
    limiter.leave(one)
    assert limiter.unread == 50


def test_unread_bytes_count_as_records_do_and_are_a_quarter_of_the_budget_at_most() -> None:
    memory, descriptors = MemoryBudget(1_000), Descriptors(1_000)
    limiters = [ConnectionLimiter(Limits(unread=unread), descriptors, memory) for unread in (100, 10_000)]
    assert [limiter.most_unread for limiter in limiters] == [100, 250]
    admitted = [limiter.enter("a", 0.0) for limiter in limiters]
    for limiter, each in zip(limiters, admitted, strict=True):
        assert isinstance(each, Admitted)
        limiter.count_unread(each, 80)
    assert memory.used == 160
    for limiter, each in zip(limiters, admitted, strict=True):
        assert isinstance(each, Admitted)
        limiter.leave(each)
    assert memory.used == 0


@in_fake_time
async def test_a_small_budget_bounds_what_clients_do_not_read() -> None:
    bench = Bench(limits=Limits(), memory=MemoryBudget(6 * HIGH_WATER))
    peers = [bench.peer() for _ in range(2)]
    for peer in peers:
        stop_reading(peer)
    assert [peer.transport.closed for peer in peers].count(True) == 1
    assert closed(bench) == {("too_much_unread",): 1}


def test_an_address_that_comes_back_has_still_used_up_its_quota_and_many_are_not_remembered() -> None:
    limiter = ConnectionLimiter(Limits(request_rate_per_address=10), Descriptors(1 << 20))
    first = limiter.enter("10.0.0.1", 0.0)
    assert isinstance(first, Admitted)
    for _ in range(10):
        assert limiter.charge_request(first, 0.0) == 0
    limiter.leave(first)
    again = limiter.enter("10.0.0.1", 0.0)
    assert isinstance(again, Admitted)
    assert limiter.charge_request(again, 0.0) > 0
    limiter.leave(again)
    for number in range(10_000):
        passing = limiter.enter(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 10.0 + number)
        assert isinstance(passing, Admitted)
        limiter.leave(passing)
    assert len(limiter._addresses) <= 3_000


def test_descriptors_are_kept_for_others() -> None:
    assert Descriptors(1_024).for_clients == 824
    assert Descriptors(20_000).for_clients == 17_500
    assert Descriptors(64).for_clients == 1


def test_the_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        available = raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
        assert available == (before[1] if before[1] != resource.RLIM_INFINITY else 1 << 30)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# Connections


@in_fake_time
async def test_connections_beyond_a_limit_are_refused_and_counted() -> None:
    bench = Bench(limits=Limits(connections=3, connections_per_address=2), descriptors=1_000)
    one, two, third = (bench.peer() for _ in range(3))
    with capture_logs() as logs:
        other, fifth = bench.peer(host="10.0.0.2"), bench.peer(host="10.0.0.3")
    assert [each.transport.closed for each in (one, two, third, other, fifth)] == [False, False, True, False, True]
    assert closed(bench) == {("too_many_connections_of_address",): 1, ("too_many_connections",): 1}
    assert [(entry["event"], entry["reason"]) for entry in logs if entry["log_level"] == "warning"] == [
        ("connection closed: limit", "too_many_connections")
    ]
    assert len(bench.server.listener.connections) == 3
    third.protocol.data_received(b"what was under way")
    await asyncio.sleep(0)
    one.die()
    bench.peer(host="10.0.0.3").ask(ApiKey.API_VERSIONS, 0)
    assert len(bench.server.listener.connections) == 3


@in_fake_time
async def test_the_process_keeps_descriptors_for_others() -> None:
    bench = Bench(descriptors=202)
    peers = [bench.peer() for _ in range(3)]
    assert [peer.transport.closed for peer in peers] == [False, False, True]
    assert closed(bench) == {("no_descriptor_left",): 1}


@in_fake_time
async def test_a_frame_that_has_begun_must_come_whole() -> None:
    bench = Bench()
    busy, slow, length = (bench.peer() for _ in range(3))
    whole = slow.bytes_of(ApiKey.METADATA, 1, topics=())
    length.protocol.data_received(b"\0\0\x10\0")
    for at in range(len(whole) - 1):
        slow.protocol.data_received(whole[at : at + 1])
        busy.ask(ApiKey.API_VERSIONS, 0)
        await asyncio.sleep(2)
        assert slow.transport.closed == (at * 2 + 2 >= Limits().frame_timeout)
        if slow.transport.closed:
            break
    assert length.transport.closed
    assert closed(bench) == {("unfinished_frame",): 2}
    await asyncio.sleep(60)
    assert not busy.transport.closed


@in_fake_time
async def test_a_frame_that_is_not_read_is_not_late() -> None:
    bench = Bench(limits=Limits(frame_timeout=0.1))
    peer = bench.peer()
    peer.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
    peer.protocol.data_received(frame(bytes(MOST_AHEAD))[:-1])
    assert not peer.transport.reading
    await asyncio.sleep(0.25)
    assert not peer.transport.closed
    await asyncio.sleep(0.15)
    assert peer.transport.closed
    assert closed(bench) == {("unfinished_frame",): 1}


@in_fake_time
async def test_a_client_that_waits_for_an_answer_is_not_idle() -> None:
    bench = Bench(limits=Limits(idle_timeout=2.0))
    peer = await bench.member()
    waiting = peer.fetch(peer.positions(), max_wait=5_000)
    await asyncio.sleep(4.5)
    assert not peer.transport.closed
    await asyncio.sleep(1)
    assert peer.answer(waiting) is not None
    await asyncio.sleep(2)
    assert peer.transport.closed
    assert closed(bench) == {("idle",): 1}


def stop_reading(peer: Peer) -> None:
    peer.transport.stuck = True
    while peer.transport.reading:
        peer.send(ApiKey.METADATA, 1, topics=None)


@in_fake_time
async def test_a_client_that_never_reads_is_closed() -> None:
    bench = Bench()
    peer, slow = bench.peer(), bench.peer()
    for each in (peer, slow):
        stop_reading(each)
    held = bench.metric("kafka_mesh_unread_bytes")[()]
    assert 2 * HIGH_WATER < held < 3 * HIGH_WATER
    for _ in range(4):
        await asyncio.sleep(Limits().write_timeout / 2)
        del slow.transport.written[:100]
    assert (peer.transport.closed, slow.transport.closed) == (True, False)
    assert closed(bench) == {("not_reading",): 1}
    assert bench.metric("kafka_mesh_unread_bytes")[()] < held / 2
    slow.transport.read_again()
    assert bench.metric("kafka_mesh_unread_bytes")[()] == 0
    await asyncio.sleep(Limits().write_timeout * 2)
    assert not slow.transport.closed


@in_fake_time
async def test_of_those_that_do_not_read_the_worst_is_closed_first() -> None:
    bench = Bench(limits=Limits(unread=3 * HIGH_WATER, request_rate=1 << 40, request_rate_per_address=1 << 40))
    peers = [bench.peer() for _ in range(3)]
    for peer in peers[:2]:
        stop_reading(peer)
    worst = peers[0]
    worst.transport.written += bytes(10_000)
    worst.protocol.pause_writing()
    stop_reading(peers[2])
    assert [peer.transport.closed for peer in peers] == [True, False, False]
    assert closed(bench) == {("too_much_unread",): 1}
    assert bench.metric("kafka_mesh_unread_bytes")[()] < 3 * HIGH_WATER


# Quotas


@in_fake_time
async def test_a_client_that_asks_too_often_is_told_to_rest_and_not_read() -> None:
    bench = Bench(limits=Limits(request_rate=10))
    peer, other = bench.peer(), bench.peer()
    throttles = [peer.ask(ApiKey.METADATA, 3, topics=()).throttle_time.total_seconds() for _ in range(11)]
    assert throttles == [0.0] * 10 + [0.1]
    assert not peer.transport.reading
    early = peer.send(ApiKey.METADATA, 3, topics=())
    assert peer.answer(early) is None
    other.ask(ApiKey.METADATA, 3, topics=())
    await asyncio.sleep(0.11)
    assert peer.answer(early) is not None
    assert bench.metric("kafka_mesh_throttled_requests_total") == {("METADATA",): 2}
    await asyncio.sleep(2)
    assert peer.transport.reading
    assert peer.ask(ApiKey.METADATA, 3, topics=()).throttle_time.total_seconds() == 0


@in_fake_time
async def test_unanswered_requests_count_against_the_quota() -> None:
    bench = Bench(limits=Limits(request_rate=10))
    peer = bench.peer()
    for _ in range(11):
        peer.send(ApiKey.PRODUCE, 3, acks=0, timeout=0, topic_data=())
    assert not peer.transport.reading
    assert bench.metric("kafka_mesh_throttled_requests_total") == {("PRODUCE",): 1}
    await asyncio.sleep(0.2)
    assert peer.transport.reading


@in_fake_time
async def test_an_address_has_a_quota_over_its_connections() -> None:
    bench = Bench(limits=Limits(request_rate_per_address=10))
    peers = [bench.peer() for _ in range(11)]
    throttles = [peer.ask(ApiKey.METADATA, 3, topics=()).throttle_time.total_seconds() for peer in peers]
    assert throttles == [0.0] * 10 + [0.1]
    assert bench.peer(host="10.0.0.2").ask(ApiKey.METADATA, 3, topics=()).throttle_time.total_seconds() == 0


@in_fake_time
async def test_versions_of_the_future_count_one_by_one() -> None:
    """They come by thousands in what is read at once."""
    peer = Bench(limits=Limits(request_rate=10)).peer()
    peer.protocol.data_received(ApiVersionsOfTheFuture * (MOST_QUEUED + 2))
    await asyncio.sleep(0.05)
    assert not peer.transport.reading
    answer = 4 + 4 + 2 + 4 + 6
    assert len(peer.transport.written) == 11 * answer
    await asyncio.sleep(1.0)
    assert len(peer.transport.written) == 21 * answer


@in_fake_time
async def test_fetches_that_bring_records_cost_nothing() -> None:
    bench = Bench(limits=Limits(request_rate=5))
    peer = await bench.member()
    positions = await fetched(bench, peer)
    await asyncio.sleep(2)
    for turn in range(1, 20):
        bench.engine().produce(0, first=turn * 10)
        answer = peer.answer(peer.fetch(positions))
        assert answer.throttle_time.total_seconds() == 0
        assert answer.responses[0].partitions[0].records
        positions = {**positions, 0: positions[0] + 10}
    assert bench.metric("kafka_mesh_throttled_requests_total") == {}


@in_fake_time
async def test_fetches_that_bring_what_was_sent_before_are_counted() -> None:
    """A client that asks for the same records for ever makes no progress."""
    bench = Bench(limits=Limits(request_rate=5))
    peer = await bench.member()
    positions = peer.positions()
    await fetched(bench, peer)
    throttles = []
    for _ in range(5):
        answer = peer.answer(peer.fetch(positions))
        if answer is None:
            break
        assert answer.responses[0].partitions[0].records
        throttles.append(answer.throttle_time.total_seconds())
    assert throttles[-1] > 0


@in_fake_time
async def test_a_flood_of_bad_connections_does_not_flood_the_log() -> None:
    bench = Bench()
    with capture_logs() as logs:
        for _ in range(10 * MOST_LOGGED):
            bench.peer().protocol.data_received(b"\xff\xff\xff\xff")
    assert len([entry for entry in logs if entry["log_level"] == "warning"]) == MOST_LOGGED
    assert bench.metric("kafka_mesh_protocol_errors_total") == {("frame_size",): 10 * MOST_LOGGED}
