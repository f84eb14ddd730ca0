"""A topic is moved under clients that speak raw protocol, between clusters in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mesh.routing.concatenated import EPOCHS_PER_MOVE
from mesh.routing.moves.checks import NotMoved
from mesh.routing.moves.machine import Phase, WrongPhase
from mesh.routing.moves.move import Location, Move, document_of
from mesh.routing.node_ids import NODE_BITS
from mesh.runtime.entity_router.moves import mover as mover_module
from mesh.runtime.entity_router.moves.moves import MoveRequest, Plan
from mesh.runtime.entity_router.moves.side import SideRefused
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.routing.moves.test_copying import batch
from tests.runtime.entity_router.harness import LEADER_EPOCH, UnionClient, topic_id
from tests.runtime.entity_router.moves.world import US_TOPIC_ID, MemoryStore, MoveWorld, moving
from tests.runtime.relay.loops import anyhow, until

US = 1 << NODE_BITS
ID = topic_id("orders")
TO_US, TO_EU = MoveRequest("orders", "us"), MoveRequest("orders", "eu")


async def ready(made: MoveWorld, records: int = 3) -> None:
    made.eu.create("orders")
    for _ in range(records):
        made.eu.append("orders", batch(0))
    await until(lambda: made.gate.is_known)
    client = await made.union.client()
    await client.asked(ApiKey.METADATA, 12, {"topics": None})


async def moved(made: MoveWorld, wanted: MoveRequest = TO_US) -> None:
    await made.moves.begin(wanted)
    await at(made, wanted.to)


async def at(made: MoveWorld, path: str) -> None:
    await until(lambda: any(move.source.path == path and not move.is_copying for move in made.moves.all))


async def produced(client: UnionClient, version: int) -> tuple[int, int]:
    data = [{"name": "orders", "topic_id": ID, "partition_data": [{"index": 0, "records": batch(0)}]}]
    answer = await client.asked(ApiKey.PRODUCE, version, {"acks": -1, "timeout_ms": 100, "topic_data": data})
    (told,) = answer["responses"][0]["partition_responses"]
    return told["error_code"], told["base_offset"]


def fetch(offset: int, epoch: int = -1) -> Tree:
    partitions = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
    topics = [{"topic": "orders", "topic_id": ID, "partitions": partitions}]
    return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": epoch, "topics": topics}


async def fetched(client: UnionClient, version: int, offset: int) -> Tree:
    answer = await client.asked(ApiKey.FETCH, version, fetch(offset))
    assert answer["error_code"] == 0
    (topic,) = answer["responses"]
    assert topic["topic_id"] == ID if version > 12 else topic["topic"] == "orders"
    told: Tree = topic["partitions"][0]
    return told


async def told(made: MoveWorld) -> Tree:
    client = await made.union.client()
    topics: list[Tree] = (await client.asked(ApiKey.METADATA, 12, {"topics": [{"name": "orders"}]}))["topics"]
    return topics[0]


@anyhow
async def test_clients_are_led_to_the_other_cluster_where_every_record_has_its_offset() -> None:
    async with moving() as made:
        await ready(made)
        at_eu = await made.union.client(0)
        assert await produced(at_eu, 9) == (0, 6)
        assert await produced(at_eu, 13) == (0, 8)
        await moved(made)
        assert made.us.logs["orders"] == made.eu.logs["orders"]
        found = await told(made)
        assert (found["topic_id"], found["partitions"][0]["leader_id"]) == (ID, US)
        assert found["partitions"][0]["leader_epoch"] == EPOCHS_PER_MOVE + LEADER_EPOCH
        for version in (9, 13):
            assert (await produced(at_eu, version))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for version in (11, 12, 13, 18):
            assert (await fetched(at_eu, version, 10))["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        at_us = await made.union.client(US)
        assert await produced(at_us, 9) == (0, 10)
        assert await produced(at_us, 13) == (0, 12)
        for version in (11, 12, 13, 18):
            assert len((await fetched(at_us, version, 12))["records"]) == len(batch(0))
        assert made.eu.end("orders") == 10


@anyhow
async def test_a_session_from_before_has_to_name_everything() -> None:
    async with moving() as made:
        await ready(made)
        client = await made.union.client(0)
        await client.asked(ApiKey.FETCH, 13, fetch(0, epoch=0))
        await client.asked(ApiKey.FETCH, 13, fetch(0, epoch=1))
        await moved(made)
        answer = await client.asked(ApiKey.FETCH, 13, {**fetch(0, epoch=2), "topics": []})
        assert answer["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@anyhow
async def test_it_goes_back_and_there_again() -> None:
    async with moving() as made:
        await ready(made)
        await moved(made)
        at_us, at_eu = await made.union.client(US), await made.union.client(0)
        assert await produced(at_us, 13) == (0, 6)
        await moved(made, TO_EU)
        assert made.us.logs["orders"] == made.eu.logs["orders"]
        (partition,) = (await told(made))["partitions"]
        assert (partition["leader_id"], partition["leader_epoch"]) == (0, 2 * EPOCHS_PER_MOVE + LEADER_EPOCH)
        assert (await produced(at_us, 13))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await produced(at_eu, 13) == (0, 8)
        assert await produced(at_eu, 9) == (0, 10)
        assert len((await fetched(at_eu, 13, 8))["records"]) == 2 * len(batch(0))
        await moved(made)
        assert made.us.logs["orders"] == made.eu.logs["orders"]


@anyhow
async def test_what_is_sent_during_the_cut_is_held_and_then_told_to_go_elsewhere() -> None:
    async with moving() as made:
        await ready(made)
        client, other = await made.union.client(0), await made.union.client(0)
        made.us.holds_back = lambda api_key: api_key is ApiKey.LIST_OFFSETS and made.gate.has_any
        await made.moves.begin(TO_US)
        await until(lambda: made.gate.has_any)
        held = asyncio.get_running_loop().create_task(produced(client, 13))
        assert (await fetched(other, 13, 0))["error_code"] == 0, "who reads is not held"
        await asyncio.sleep(0)
        assert not held.done()
        made.us.holds_back = lambda api_key: False
        assert (await held)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert made.us.logs["orders"] == made.eu.logs["orders"]


@anyhow
async def test_the_cut_waits_for_what_a_client_has_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may still carry out a request whose client has disconnected."""
    async with moving() as made:
        await ready(made)
        await leave_behind(made)
        assert not await made.gate.drained()
        monkeypatch.setattr(mover_module, "SETTLED", 0.5)
        await made.moves.begin(TO_US)
        await until(lambda: made.gate.has_any)
        made.eu.append("orders", batch(0))
        await at(made, "us")
        assert made.us.logs["orders"] == made.eu.logs["orders"]


async def leave_behind(made: MoveWorld) -> None:
    """A client sends a Produce, and disconnects before its broker answers."""
    client = await made.union.client(0)
    made.eu.holds_back = lambda api_key: api_key is ApiKey.PRODUCE
    data = [{"name": "orders", "topic_id": ID, "partition_data": [{"index": 0, "records": batch(0)}]}]
    client.ask_tree(ApiKey.PRODUCE, 9, {"acks": -1, "timeout_ms": 100, "topic_data": data})
    await until(lambda: ApiKey.PRODUCE in [api_key for api_key, _ in made.eu.leaf.seen])
    client.abort()
    await until(lambda: not any(list(each.under_way()) for each in made.union.runtime.clients()))


@anyhow
async def test_clients_are_not_held_for_longer_than_they_may_be() -> None:
    async with moving(hold=0.1) as made:
        await ready(made)
        client = await made.union.client(0)
        made.us.holds_back = lambda api_key: api_key is ApiKey.LIST_OFFSETS and made.gate.has_any
        await made.moves.begin(TO_US)
        await until(lambda: made.gate.has_any)
        assert (await produced(client, 13))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER, "and asks again"
        assert await produced(client, 13) == (0, 6)
        assert (await told(made))["partitions"][0]["leader_id"] == 0


@pytest.mark.parametrize("is_written", [False, True])
@anyhow
async def test_clients_stay_held_until_the_store_has_the_cut(is_written: bool) -> None:
    async with moving() as made:
        await ready(made)
        client = await made.union.client(0)
        made.us.holds_back = lambda api_key: api_key is ApiKey.LIST_OFFSETS and made.gate.has_any
        await made.moves.begin(TO_US)
        await until(lambda: made.gate.has_any)
        made.store.puts_fail, made.store.is_written = 5, is_written
        made.us.holds_back = lambda api_key: False
        held = asyncio.get_running_loop().create_task(produced(client, 13))
        await at(made, "us")
        assert made.store.puts_fail == 0
        assert (await held)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


@anyhow
async def test_a_process_that_comes_after_a_kill_goes_on() -> None:
    store = MemoryStore()
    async with moving(store) as made:
        await ready(made)
        made.us.holds_back = lambda api_key: api_key is ApiKey.PRODUCE
        await made.moves.begin(TO_US)
        await until(lambda: "orders" in made.us.logs)
        kept = made.eu, made.us
    async with moving(store, kept) as made:
        await at(made, "us")
        assert made.us.logs["orders"] == made.eu.logs["orders"]
        kept = made.eu, made.us
    async with moving(store, kept) as made:
        await until(lambda: made.gate.is_known)
        found = await told(made)
        assert (found["topic_id"], found["partitions"][0]["leader_id"]) == (ID, US)
        assert await produced(await made.union.client(US), 9) == (0, 6)


@anyhow
async def test_clients_wait_until_the_store_has_been_read() -> None:
    store = MemoryStore()
    store.is_away = True
    async with moving(store) as made:
        made.eu.create("orders")
        client = await made.union.client(0)
        waiting = asyncio.get_running_loop().create_task(produced(client, 9))
        asking = asyncio.get_running_loop().create_task(told(made))
        await asyncio.wait([waiting, asking], timeout=0.1)
        assert not waiting.done()
        assert not asking.done()
        store.is_away = False
        assert (await asking)["partitions"][0]["leader_id"] == 0
        assert (await waiting)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await produced(client, 9) == (0, 0)


@anyhow
async def test_groups_find_their_offsets_at_the_other_cluster() -> None:
    async with moving() as made:
        await ready(made)
        made.eu.offsets = {("billing", "orders"): 4, ("other", "else"): 9}
        await moved(made)
        assert made.us.offsets == {("billing", "orders"): 4}


async def offset_of(made: MoveWorld, group: str, version: int) -> int:
    client = await made.union.client(0)
    topics = [{"name": "orders", "partition_indexes": [0]}]
    request: Tree = {"group_id": group, "topics": topics, "groups": [{"group_id": group, "topics": topics}]}
    answer = await client.asked(ApiKey.OFFSET_FETCH, version, request)
    found = answer["groups"][0] if version >= 8 else answer
    offset: int = found["topics"][0]["partitions"][0]["committed_offset"]
    return offset


@pytest.mark.parametrize("version", [5, 8])
@anyhow
async def test_offsets_that_the_home_of_a_group_with_members_does_not_take_are_kept(version: int) -> None:
    async with moving() as made:
        await ready(made)
        made.eu.offsets = {("billing", "orders"): 2}
        await moved(made)
        made.us.offsets["billing", "orders"] = 5
        made.eu.members = {"billing"}
        await moved(made, TO_EU)
        assert made.eu.offsets["billing", "orders"] == 2
        assert await offset_of(made, "billing", version) == 5
        made.eu.offsets["billing", "orders"] = 6  # a member has committed
        assert await offset_of(made, "billing", version) == 6


@pytest.mark.parametrize("committed_at_us", [5, 1], ids=["consumed further", "reset to consume again"])
@anyhow
async def test_offsets_that_only_the_move_knows_go_along_when_the_topic_moves_again(committed_at_us: int) -> None:
    async with moving() as made:
        await ready(made)
        made.eu.offsets = {("billing", "orders"): 2}
        await moved(made)
        made.us.offsets["billing", "orders"] = committed_at_us
        made.eu.members = {"billing"}
        await moved(made, TO_EU)
        await moved(made)
        assert made.us.offsets["billing", "orders"] == committed_at_us
        assert await offset_of(made, "billing", 8) == committed_at_us


@anyhow
async def test_offsets_that_only_the_move_knows_are_kept_by_the_next_move_if_that_cluster_refuses_them_too() -> None:
    async with moving() as made:
        await ready(made)
        made.eu.offsets, made.us.offsets = {("billing", "orders"): 5}, {("billing", "orders"): 2}
        made.eu.members = made.us.members = {"billing"}
        await moved(made)
        assert await offset_of(made, "billing", 8) == 5
        made.eu.offsets["billing", "orders"] = 3
        await moved(made, TO_EU)
        assert made.eu.offsets["billing", "orders"] == 3
        assert await offset_of(made, "billing", 8) == 5


@anyhow
async def test_offsets_of_a_group_that_its_cluster_does_not_list_go_along() -> None:
    async with moving() as made:
        await ready(made)
        made.eu.offsets = {("billing", "orders"): 5}
        made.us.members = {"billing"}
        await moved(made)
        assert not made.us.offsets
        made.eu.offsets.clear()  # they have expired
        plan = await made.moves.begin(TO_EU)
        assert list(plan.groups) == ["billing"]
        await at(made, "eu")
        assert made.eu.offsets["billing", "orders"] == 5


@anyhow
async def test_an_offset_that_a_member_has_committed_since_goes_along() -> None:
    async with moving() as made:
        await ready(made)
        made.eu.offsets = {("billing", "orders"): 2}
        made.us.members = {"billing"}
        await moved(made)
        made.us.offsets["billing", "orders"] = 4
        await moved(made, TO_EU)
        assert made.eu.offsets["billing", "orders"] == 4


@anyhow
async def test_a_move_that_is_cancelled_leaves_nothing_behind() -> None:
    async with moving() as made:
        await ready(made)
        made.us.holds_back = lambda api_key: api_key is ApiKey.PRODUCE
        await made.moves.begin(TO_US)
        assert made.moves.cancel("orders").source.path == "eu"
        await until(lambda: not made.moves.all)
        assert "orders" not in made.us.logs
        assert not made.store.documents
        with pytest.raises(WrongPhase):
            made.moves.cancel("orders")


@anyhow
async def test_a_move_whose_route_no_longer_exists_can_be_cancelled() -> None:
    store = MemoryStore()
    move = Move("orders", ID, 1, Location("eu", "orders"), Location("asia", "orders"))
    store.documents["move", "all", "orders"] = document_of(move)
    async with moving(store) as made:
        await ready(made)
        await until(lambda: made.moves.all[0].problem)
        assert made.moves.all[0].problem == "a route of the move no longer exists"
        await until(lambda: made.moves.movers[0].machine.phase is Phase.RESTING)
        made.moves.cancel("orders")
        await until(lambda: not made.moves.all)
        assert not store.documents


@anyhow
async def test_a_move_is_not_cancelled_before_the_cluster_has_answered_for_the_topic() -> None:
    async with moving() as made:
        await ready(made)
        begun = await creating(made)
        with pytest.raises(WrongPhase, match="it is being begun"):
            made.moves.cancel("orders")
        create_late(made)
        await begun
        await at(made, "us")
        assert made.us.logs["orders"] == made.eu.logs["orders"]


@anyhow
async def test_a_move_that_is_cancelled_while_the_cluster_refuses_to_create_its_topic_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    async with moving(store) as made:
        await ready(made)
        asked: list[Tree] = []

        def create(request: Tree) -> Tree:
            asked.append(request)
            return {"topics": [{"name": "orders", "error_code": ErrorCode.NOT_CONTROLLER, "error_message": None}]}

        monkeypatch.setattr(made.us, "_create_topics", create)
        monkeypatch.setattr(made.us, "_delete_topics", nothing_to_delete)
        await made.moves.begin(TO_US)
        known = len(asked)
        await until(lambda: len(asked) > known)
        assert made.moves.cancel("orders").source.path == "eu"
        await until(lambda: not made.moves.all)
        assert not store.documents
        assert await produced(await made.union.client(0), 9) == (0, 6)
        kept = made.eu, made.us
    async with moving(store, kept) as made:
        await until(lambda: made.gate.is_known)
        assert (await told(made))["partitions"][0]["leader_id"] == 0
        assert "orders" not in made.us.logs


@anyhow
async def test_a_move_whose_topic_is_being_created_by_the_copy_can_be_cancelled() -> None:
    async with moving() as made:
        await ready(made)
        begun = await creating(made)
        made.us.holds_back = lambda api_key: api_key is ApiKey.CREATE_TOPICS
        lose_requests(made)
        await begun
        seen = len(creations(made))
        await until(lambda: len(creations(made)) > seen)
        made.us.create("orders", US_TOPIC_ID)  # the request is carried out, and not answered yet
        made.moves.cancel("orders")
        await until(lambda: not made.moves.all)
        assert "orders" not in made.us.logs
        assert not made.store.documents


@anyhow
async def test_a_move_that_is_being_begun_when_its_virtual_cluster_ends_is_left_to_the_next_process() -> None:
    store = MemoryStore()
    async with moving(store) as made:
        await ready(made)
        begun = await creating(made)
        made.moves.close()
        create_late(made)
        await begun
        assert not any(task.get_name() == "move of orders" for task in asyncio.all_tasks())
        kept = made.eu, made.us
    async with moving(store, kept) as made:
        await at(made, "us")


async def creating(made: MoveWorld) -> asyncio.Task[Plan]:
    """Begins a move. Returns when the cluster has been asked to create the topic; it does not answer."""
    made.us.holds_back = lambda api_key: api_key is ApiKey.CREATE_TOPICS
    begun = asyncio.get_running_loop().create_task(made.moves.begin(TO_US))
    await until(lambda: creations(made))
    return begun


def creations(made: MoveWorld) -> list[Tree]:
    return [request for api_key, request in made.us.leaf.seen if api_key is ApiKey.CREATE_TOPICS]


def create_late(made: MoveWorld) -> None:
    """From now on the cluster creates topics; the requests before get no answer."""
    made.us.holds_back = lambda api_key: False
    lose_requests(made)


def lose_requests(made: MoveWorld) -> None:
    for writer in made.us.leaf.leaf_brokers[0].writers:
        writer.transport.abort()


def nothing_to_delete(request: Tree) -> Tree:
    return {"responses": [{"name": name, "error_code": 3} for name in request["topic_names"]]}


@anyhow
async def test_what_cannot_be_moved_is_refused_by_name() -> None:
    async with moving() as made:
        await ready(made)
        made.us.create("taken")
        made.eu.create("taken")

        async def refused(wanted: MoveRequest = TO_US) -> str:
            with pytest.raises(NotMoved) as told:
                await made.moves.plan(wanted)
            return told.value.kind

        assert await refused(MoveRequest("nothing", "us")) == "unknown_topic"
        assert await refused(MoveRequest("orders", "eu")) == "same_route"
        assert await refused(MoveRequest("orders", "asia")) == "unknown_route"
        assert await refused(MoveRequest("taken", "us")) == "target_exists"
        made.not_free = {"us"}
        assert await refused() == "interceptors"
        made.not_free = set()
        made.eu.configs = {"cleanup.policy": "compact,delete"}
        assert await refused() == "compacted"
        made.eu.configs = {"message.timestamp.type": "LogAppendTime"}
        assert await refused() == "log_append_time"
        made.eu.configs, made.eu.transactions = {}, [7]
        assert await refused() == "transactions"
        made.eu.transactions = []
        made.eu.offsets, made.eu.kinds = {("app", "orders"): 1}, {"app": "streams"}
        assert await refused() == "streams_group"
        made.eu.kinds, made.eu.starts["orders"] = {}, 200_000_000
        assert await refused() == "starts_late"
        made.eu.starts["orders"] = 0
        plan = await made.moves.plan(TO_US)
        assert (plan.records, plan.filled, list(plan.groups)) == (6, 0, ["app"])
        assert not made.store.documents


@anyhow
async def test_the_topic_is_created_again_until_the_cluster_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In clusters with ZooKeeper only the controller creates topics, and other brokers hear of them later."""
    async with moving() as made:
        await ready(made)
        codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]

        def create(request: Tree) -> Tree:
            code = codes.pop(0) if codes else 36
            if code == ErrorCode.NONE:
                asyncio.get_running_loop().call_later(0.2, made.us.create, "orders", US_TOPIC_ID)
            return {"topics": [{"name": "orders", "error_code": code, "error_message": None}]}

        monkeypatch.setattr(made.us, "_create_topics", create)
        await moved(made)
        assert not codes
        assert made.us.logs["orders"] == made.eu.logs["orders"]


@anyhow
async def test_a_topic_that_cannot_be_created_is_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    async with moving() as made:
        await ready(made)
        refused = {"name": "orders", "error_code": 38, "error_message": "three"}
        monkeypatch.setattr(made.us, "_create_topics", lambda request: {"topics": [refused]})
        with pytest.raises(SideRefused, match="three"):
            await made.moves.begin(TO_US)
        assert not made.moves.all
        assert not made.store.documents


@anyhow
async def test_a_process_that_comes_after_a_kill_creates_the_topic_with_the_same_replicas() -> None:
    store = MemoryStore()
    asked: list[int] = []
    async with moving(store) as made:
        await ready(made)
        made.us.holds_back = lambda api_key: api_key is ApiKey.CREATE_TOPICS
        begun = asyncio.get_running_loop().create_task(made.moves.begin(replace(TO_US, replicas=3)))
        await until(lambda: bool(store.documents))
        begun.cancel()
        kept = made.eu, made.us
        kept[1].on_create = lambda topic: asked.append(topic["replication_factor"])
    async with moving(store, kept) as made:
        await at(made, "us")
        assert asked == [3]


@anyhow
async def test_a_move_that_fails_leaves_clients_where_they_are() -> None:
    async with moving() as made:
        await ready(made)
        made.eu.append("orders", batch(0, attributes=0x10))
        await made.moves.begin(TO_US)
        await until(lambda: any(move.problem for move in made.moves.all))
        (move,) = made.moves.all
        assert move.problem.startswith("transactions: ")
        assert await produced(await made.union.client(0), 9) == (0, 8)
        with pytest.raises(WrongPhase, match="cancel it"):
            await made.moves.begin(TO_US)
        made.moves.cancel("orders")
        await until(lambda: "orders" not in made.us.logs)


@anyhow
async def test_partitions_that_were_added_during_the_copy_end_the_move() -> None:
    async with moving() as made:
        await ready(made)

        def add_at_the_first_batch(api_key: ApiKey) -> bool:
            if api_key is ApiKey.PRODUCE and not made.us.logs["orders"]:
                made.eu.add_partition("orders")
            return False

        made.us.holds_back = add_at_the_first_batch
        await made.moves.begin(TO_US)
        await until(lambda: made.moves.all[0].problem)
        assert made.moves.all[0].problem == "partitions: the source has 2, and not 1"
        assert await produced(await made.union.client(0), 9) == (0, 6)


@pytest.mark.parametrize("side", ["eu", "us"])
@anyhow
async def test_a_topic_with_added_partitions_is_not_moved_back(side: str) -> None:
    async with moving() as made:
        await ready(made)
        await moved(made)
        (made.eu if side == "eu" else made.us).add_partition("orders")
        with pytest.raises(NotMoved) as told_of:
            await made.moves.plan(TO_EU)
        assert told_of.value.kind == "partitions"


@anyhow
async def test_a_side_that_was_written_past_the_mesh_is_not_gone_back_to() -> None:
    async with moving() as made:
        await ready(made)
        await moved(made)
        made.us.append("orders", batch(0))
        made.eu.append("orders", batch(0, value=b"w"))
        with pytest.raises(NotMoved) as told_of:
            await made.moves.plan(TO_EU)
        assert told_of.value.kind == "diverged"
        assert US_TOPIC_ID != ID
