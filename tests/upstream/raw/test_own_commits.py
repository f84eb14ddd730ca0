"""Commits over our own connection: the mesh reports commits that are stored at once, and leaves all others to
librdkafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import wraps
from struct import Struct
from typing import Any

import pytest

from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.upstream.engine import Committed, CommitToken
from mesh.upstream.groups.coordinators import NoCoordinator
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.raw import own_commits
from mesh.upstream.raw.own_commits import OwnCommits
from mesh.wire.client.commits import OFFSET_COMMIT, GroupMembership
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange

_PLACE = Struct(">ih")
ORDERS = UpstreamPartition(ClusterName("eu"), TopicName("orders"), 0)
POSITIONS = {ORDERS: CommitPosition(7)}
MEMBER = GroupMembership("g", 1, "m", None)


@dataclass
class Coordinator:
    """A coordinator that answers each commit when a test lets it, with the next of `errors`, or fails. connects: set
    while a connection to it can be made."""

    served: Mapping[int, VersionRange] = field(default_factory=lambda: {OFFSET_COMMIT: VersionRange(2, 10)})
    errors: list[int | Exception] = field(default_factory=list)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    connects: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0

    def __post_init__(self) -> None:
        self.connects.set()

    async def versions(self) -> Mapping[int, VersionRange]:
        return self.served

    async def send(self, request: ClientRequest) -> Coroutine[Any, Any, ClientResponse]:
        await self.connects.wait()
        self.requests += 1
        return self._answered(request)

    async def _answered(self, request: ClientRequest) -> ClientResponse:
        await self.answers.wait()
        error = self.errors.pop(0) if self.errors else 0
        if isinstance(error, Exception):
            raise error
        body = bytes(4) + b"\0\0\0\1\0\6orders\0\0\0\1" + _PLACE.pack(0, error)
        return ClientResponse(request, memoryview(bytearray(body)), 0)


@dataclass
class Bench:
    coordinator: Coordinator
    told: list[Committed] = field(default_factory=list)
    handed_over: list[CommitToken] = field(default_factory=list)
    asked: int = 0
    looked_for: int = 0
    finds: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.finds.set()

    def make(self) -> OwnCommits:
        nodes = Nodes(ClusterName("eu"), "127.0.0.1:1", ConnectionSettings())
        loop = asyncio.get_running_loop()
        return OwnCommits(
            nodes, loop, self.told.append, lambda token, _: self.handed_over.append(token), self.request_membership
        )

    def request_membership(self) -> None:
        self.asked += 1


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a coroutine to its end."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(Coordinator())

    async def found(_nodes: Nodes, group: str) -> Coordinator:
        assert group == MEMBER.group
        bench.looked_for += 1
        await bench.finds.wait()
        return bench.coordinator

    monkeypatch.setattr(own_commits, "link_to_coordinator", found)
    return bench


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def stored(*numbers: int) -> list[Committed]:
    return [Committed(CommitToken(number), {ORDERS: 0}) for number in numbers]


@on_a_loop
async def test_what_is_stored_is_told_and_the_coordinator_is_looked_for_once(bench: Bench) -> None:
    commits = bench.make()
    commits.joined(MEMBER)
    bench.coordinator.answers.set()
    for number in (1, 2):
        commits.commit(CommitToken(number), POSITIONS, True)
        await settled()
    assert (bench.told, bench.handed_over, bench.looked_for) == (stored(1, 2), [], 1)


@on_a_loop
async def test_without_a_membership_librdkafka_commits(bench: Bench) -> None:
    commits = bench.make()
    commits.commit(CommitToken(1), POSITIONS, True)
    commits.joined(MEMBER)
    commits.left()
    commits.commit(CommitToken(2), POSITIONS, True)
    await settled()
    assert (bench.handed_over, bench.coordinator.requests) == ([1, 2], 0)


@pytest.mark.parametrize("problem", [22, 16, 29, 12, Unreachable("gone"), NoCoordinator(15)])
@on_a_loop
async def test_what_is_not_stored_is_handed_over_and_some_that_follow(bench: Bench, problem: int | Exception) -> None:
    commits = bench.make()
    commits.joined(MEMBER)
    bench.coordinator.errors.append(problem)
    bench.coordinator.answers.set()
    commits.commit(CommitToken(1), POSITIONS, True)
    await settled()
    commits.commit(CommitToken(2), POSITIONS, True)
    assert (bench.told, bench.handed_over, bench.asked) == ([], [1, 2], 1)


@on_a_loop
async def test_after_a_rest_it_tries_again_with_the_coordinator_that_is_now(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_commits, "RETRY_DELAY", 0.0)
    commits = bench.make()
    commits.joined(MEMBER)
    bench.coordinator.errors.append(16)
    bench.coordinator.answers.set()
    commits.commit(CommitToken(1), POSITIONS, True)
    await settled()
    commits.ended(CommitToken(1))
    commits.commit(CommitToken(2), POSITIONS, True)
    await settled()
    assert (bench.told, bench.handed_over, bench.looked_for) == (stored(2), [1], 2)


@on_a_loop
async def test_a_broker_that_is_too_old_is_left_to_librdkafka(bench: Bench) -> None:
    commits = bench.make()
    commits.joined(MEMBER)
    bench.coordinator.served = {OFFSET_COMMIT: VersionRange(0, 6)}
    commits.commit(CommitToken(1), POSITIONS, True)
    await settled()
    assert (bench.handed_over, bench.coordinator.requests) == ([1], 0)


@on_a_loop
async def test_one_that_takes_long_is_handed_over_and_none_follows_before_it_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_commits, "PATIENCE", 0.0)
    monkeypatch.setattr(own_commits, "RETRY_DELAY", 0.0)
    commits = bench.make()
    commits.joined(MEMBER)
    commits.commit(CommitToken(1), POSITIONS, True)
    await settled()
    commits.commit(CommitToken(2), POSITIONS, True)
    assert bench.handed_over == [1, 2], "it is not known what became of the first"
    bench.coordinator.answers.set()
    await settled()
    assert bench.told == [], "librdkafka tells"
    for number in (1, 2):
        commits.ended(CommitToken(number))
    monkeypatch.setattr(own_commits, "PATIENCE", 60.0)
    commits.commit(CommitToken(3), POSITIONS, True)
    await settled()
    assert bench.told == stored(3)


@pytest.mark.parametrize("missing", ["the coordinator", "a connection"])
@on_a_loop
async def test_one_that_is_handed_over_before_it_is_sent_is_not_sent_any_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """It would follow newer ones, which librdkafka has made by then."""
    monkeypatch.setattr(own_commits, "PATIENCE", 0.0)
    monkeypatch.setattr(own_commits, "RETRY_DELAY", 0.0)
    late = bench.finds if missing == "the coordinator" else bench.coordinator.connects
    late.clear()
    bench.coordinator.answers.set()
    commits = bench.make()
    commits.joined(MEMBER)
    commits.commit(CommitToken(1), POSITIONS, True)
    await settled()
    commits.ended(CommitToken(1))
    late.set()
    await settled()
    assert (bench.handed_over, bench.coordinator.requests) == ([1], 0)
    monkeypatch.setattr(own_commits, "PATIENCE", 60.0)
    commits.commit(CommitToken(2), POSITIONS, True)
    await settled()
    assert (bench.told, bench.coordinator.requests) == (stored(2), 1)


@on_a_loop
async def test_at_the_end_the_one_under_way_is_waited_for(bench: Bench) -> None:
    commits = bench.make()
    commits.joined(MEMBER)
    commits.commit(CommitToken(1), POSITIONS, True)
    await settled()
    async with asyncio.TaskGroup() as tasks:
        closing = tasks.create_task(commits.close())
        await settled()
        assert not closing.done()
        bench.coordinator.answers.set()
    await settled()
    assert bench.told == stored(1)


@on_a_loop
async def test_those_that_come_meanwhile_follow_in_their_order(bench: Bench) -> None:
    commits = bench.make()
    commits.joined(MEMBER)
    for number in (1, 2, 3):
        commits.commit(CommitToken(number), POSITIONS, True)
    bench.coordinator.answers.set()
    await settled()
    assert (bench.told, bench.handed_over) == (stored(1, 2, 3), [])


@on_a_loop
async def test_none_overtakes_one_that_librdkafka_has_to_make(bench: Bench) -> None:
    commits = bench.make()
    commits.joined(MEMBER)
    bench.coordinator.answers.set()
    commits.commit(CommitToken(1), POSITIONS, False)
    commits.commit(CommitToken(2), POSITIONS, True)
    await settled()
    assert (bench.told, bench.handed_over) == ([], [1, 2])
    for number in (1, 2):
        commits.ended(CommitToken(number))
    commits.commit(CommitToken(3), POSITIONS, True)
    await settled()
    assert bench.told == stored(3)
