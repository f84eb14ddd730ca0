"""Requests that are read as a whole wait for each other, and share one bound."""

from __future__ import annotations

from struct import pack

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from mesh.memory import MemoryBudget, RequestMemory
from mesh.routing.node_ids import NODE_BITS
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, write_tree
from tests.runtime.entity_router.harness import MEMORY, UnionClient, union
from tests.runtime.relay.frames import framed
from tests.runtime.relay.loops import anyhow, until

US = 1 << NODE_BITS
LIMIT = 100


def produce(size: int) -> Tree:
    data = [{"name": "us.orders", "partition_data": [{"index": 0, "records": bytes(size)}]}]
    return {"acks": -1, "timeout_ms": 1_000, "transactional_id": None, "topic_data": data}


class Half:
    """A client that sends the first half of a request, and later the rest."""

    def __init__(self, client: UnionClient, size: int) -> None:
        self._client = client
        body = write_tree(ApiKey.PRODUCE, 9, Direction.REQUEST, produce(size))
        self._frame = framed(pack(">hhih", ApiKey.PRODUCE, 9, 1, 4) + b"test\0" + body)

    def begin(self) -> None:
        self._client.send(self._frame[: len(self._frame) // 2])

    def finish(self) -> None:
        self._client.send(self._frame[len(self._frame) // 2 :])


@anyhow
async def test_a_request_without_room_waits_and_then_goes_on() -> None:
    async with union() as made:
        made.us.answers = lambda *_: {"responses": []}
        first, second = await made.client(US), await made.client(US)
        large, other = Half(first, MEMORY - 1_000), Half(second, MEMORY // 2)
        large.begin()
        await until(lambda: made.memory.used > 0)
        other.begin()
        other.finish()
        small = await made.client(US)
        await small.asked(ApiKey.PRODUCE, 9, produce(1_000))
        assert len(made.us.seen) == 1, "a small one does not wait"
        large.finish()
        for client in (first, second):
            await client.tree(ApiKey.PRODUCE, 9)
        assert made.memory.used == 0


@anyhow
async def test_a_client_that_leaves_gives_its_room_back() -> None:
    async with union() as made:
        made.us.answers = lambda *_: {"responses": []}
        first, second, third = [await made.client(US) for _ in range(3)]
        for client in (first, second):
            Half(client, MEMORY - 1_000).begin()
        await until(lambda: made.memory.used > 0)
        second.abort()
        first.abort()
        await third.asked(ApiKey.PRODUCE, 9, produce(MEMORY // 2))
        await until(lambda: made.memory.used == 0)


@anyhow
async def test_one_that_is_larger_than_all_is_taken_alone() -> None:
    async with union() as made:
        made.us.answers = lambda *_: {"responses": []}
        client = await made.client(US)
        await client.asked(ApiKey.PRODUCE, 9, produce(3 * MEMORY))
        assert made.memory.used == 0


def test_a_quarter_of_the_budget() -> None:
    budget = MemoryBudget(400)
    told: list[str] = []
    assert budget.requests.take("a", 100, lambda: told.append("a"))
    assert not budget.requests.take("b", 1, lambda: told.append("b"))
    budget.limit = 800
    budget.requests.give_back("a")
    assert told == ["b"]


class Waiting(RuleBasedStateMachine):
    """Connections begin, finish and leave in any order."""

    connections = Bundle("connections")

    def __init__(self) -> None:
        super().__init__()
        self.memory = RequestMemory(lambda: LIMIT)
        self.taken: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        self.number = 0

    @rule(target=connections, size=st.integers(1, 2 * LIMIT))
    def begins(self, size: int) -> int:
        self.number += 1
        number = self.number
        if self.memory.take(number, size, lambda: self.granted(number)):
            self.taken[number] = size
        else:
            self.waiting[number] = size
        return number

    def granted(self, number: int) -> None:
        assert number == next(iter(self.waiting)), "in their order"
        self.taken[number] = self.waiting.pop(number)

    @rule(connection=consumes(connections))
    def ends(self, connection: int) -> None:
        self.taken.pop(connection, None)
        self.waiting.pop(connection, None)
        self.memory.give_back(connection)

    @rule(connection=connections)
    def asks_again(self, connection: int) -> None:
        size = self.taken.get(connection) or self.waiting.get(connection)
        if size is None:
            return
        assert self.memory.take(connection, size, lambda: self.granted(connection)) is (connection in self.taken)

    @invariant()
    def it_is_bounded_and_nobody_waits_for_nothing(self) -> None:
        assert self.memory.used == sum(self.taken.values())
        assert self.memory.used <= LIMIT or len(self.taken) == 1
        if self.waiting:
            assert self.taken
            assert self.memory.used + next(iter(self.waiting.values())) > LIMIT


TestWaiting = Waiting.TestCase
