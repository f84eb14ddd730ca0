"""The state of groups, and the steps about them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mesh.runtime.topologies.topologies import EPOCHS, MOST_ATTEMPTS, Topologies
from mesh.streams.description import SourceNode, Subtopology, TopologyDescription, tree_of
from mesh.streams.epochs import NONE, UNCERTAIN, Epochs
from mesh.streams.steps import ApiError, DescribedStreamsGroup, DescriptionStatus, Push, delete, push
from mesh.topology_plugins.memory import MemoryPlugin
from mesh.upstream.store.documents import Document, DocumentKind, StoreUnavailable
from mesh.wire.errors import ErrorCode
from tests.upstream.harness import run
from tests.upstream.store.memory import MemoryStore

DESCRIPTION = TopologyDescription((Subtopology("0", (SourceNode("in"),)),))
GROUP = DescribedStreamsGroup("g", topology_epoch=3, members=frozenset({"m"}), is_empty=False)
PUSH = Push("g", "m", 3, tree_of(DESCRIPTION))


class Shared(MemoryStore):
    """Another process writes in between: `others` has its writes, one before each of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[Mapping[str, Any]] = []

    async def put(
        self, kind: DocumentKind, virtual_cluster: str, group: str, document: Document | None
    ) -> Document | None:
        if self.others:
            await super().put(kind, virtual_cluster, group, self.others.pop(0))
        return await super().put(kind, virtual_cluster, group, document)


def serving(store: MemoryStore) -> Topologies:
    return Topologies("front", store, MemoryPlugin(None, "front"), plugin_name="memory")


async def pushed(topologies: Topologies) -> ApiError:
    return await topologies.carry_out("g", push(PUSH, GROUP))


def test_a_description_is_kept_until_its_group_is_deleted() -> None:
    async def test() -> None:
        topologies = serving(MemoryStore())
        assert await topologies.described("g", 3) == (DescriptionStatus.NOT_STORED, None)
        assert await pushed(topologies) == ApiError()
        assert topologies.epochs("g") == Epochs(3)
        assert await topologies.described("g", 3) == (DescriptionStatus.AVAILABLE, DESCRIPTION)
        for other in (2, 4, -1):
            assert await topologies.described("g", other) == (DescriptionStatus.NOT_STORED, None)
        assert await topologies.carry_out("g", delete("g")) == ApiError()
        assert (topologies.epochs("g"), topologies.groups()) == (Epochs(deletions=1), ["g"])
        await topologies.forget(["g", "nobody's"])
        assert topologies.groups() == []

    run(test)


def test_a_plugin_that_forgets_is_not_asked_for_again() -> None:
    async def test() -> None:
        store = MemoryStore()
        await pushed(serving(store))
        again = serving(store)  # whose plugin has lost it
        assert await again.described("g", 3) == (DescriptionStatus.NOT_STORED, None)
        assert again.epochs("g") == Epochs(3)

    run(test)


def test_a_group_with_a_description_is_not_forgotten() -> None:
    async def test() -> None:
        topologies = serving(MemoryStore())
        await pushed(topologies)
        await topologies.forget(["g"])
        assert topologies.epochs("g") == Epochs(3)

    run(test)


def test_while_the_store_is_away_pushes_fail_and_may_be_tried_again() -> None:
    async def test() -> None:
        store = MemoryStore()
        topologies = serving(store)
        store.away = "no broker"
        assert await pushed(topologies) == ApiError(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, "no broker")
        assert await topologies.carry_out("g", delete("g")) == ApiError(ErrorCode.GROUP_DELETION_FAILED, "no broker")
        assert await topologies.described("g", 3) == (DescriptionStatus.ERROR, None)
        await topologies.forget(["g"])
        with pytest.raises(StoreUnavailable):
            topologies.epochs("g")
        store.away = None
        assert await pushed(topologies) == ApiError()

    run(test)


def test_what_another_process_wrote_in_between_counts() -> None:
    async def test() -> None:
        store = Shared()
        topologies = serving(store)
        store.others = [{"stored": NONE, "failed": 1}, {"stored": NONE, "failed": 2}]
        await pushed(topologies)
        assert topologies.epochs("g") == Epochs(3, 2)

    run(test)


def test_a_deletion_by_another_process_meanwhile_leaves_it_uncertain() -> None:
    async def test() -> None:
        store = MemoryStore()

        class Deleted(MemoryPlugin):
            async def set_topology(self, group: str, epoch: int, description: TopologyDescription) -> None:
                await store.put(EPOCHS, "front", group, {"stored": NONE, "failed": NONE})

        topologies = Topologies("front", store, Deleted(None, "front"), plugin_name="deleted")
        assert await pushed(topologies) == ApiError()
        assert topologies.epochs("g") == Epochs(UNCERTAIN)

    run(test)


def test_a_process_that_is_always_too_late_gives_up() -> None:
    async def test() -> None:
        store = Shared()
        store.others = [{"stored": number, "failed": NONE} for number in range(2 * MOST_ATTEMPTS)]
        result = await pushed(serving(store))
        assert result.code == ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED

    run(test)


def test_what_is_stored_may_be_none_of_ours() -> None:
    async def test() -> None:
        store = MemoryStore()
        await store.put(EPOCHS, "front", "g", {"stored": "three"})
        result = await pushed(serving(store))
        assert result == ApiError(
            ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, "topology epochs that are no numbers"
        )

    run(test)


def test_the_operations_of_a_group_follow_each_other_and_those_of_others_do_not_wait() -> None:
    async def test() -> None:
        begun: list[str] = []
        has_begun, may_end = asyncio.Event(), asyncio.Event()

        class Slow(MemoryPlugin):
            async def set_topology(self, group: str, epoch: int, description: TopologyDescription) -> None:
                begun.append(f"set {group}")
                has_begun.set()
                await may_end.wait()

            async def delete_topology(self, group: str) -> None:
                begun.append(f"delete {group}")

        topologies = Topologies("front", MemoryStore(), Slow(None, "front"), plugin_name="slow")
        create = asyncio.get_running_loop().create_task
        tasks = [create(topologies.carry_out("g", push(PUSH, GROUP)), name="push")]
        tasks.append(create(topologies.carry_out("g", delete("g")), name="delete"))
        await has_begun.wait()
        await topologies.carry_out("h", delete("h"))
        assert begun == ["set g", "delete h"]
        may_end.set()
        await asyncio.gather(*tasks)
        assert begun == ["set g", "delete h", "delete g"]
        assert topologies.epochs("g") == Epochs(deletions=1)

    run(test)


def test_a_group_is_asked_once_and_its_epoch_is_believed_for_a_while() -> None:
    async def test() -> None:
        topologies = serving(MemoryStore())
        assert topologies.ask_for("g", 3)
        assert not topologies.ask_for("g", 3)
        assert topologies.current("g") is None
        topologies.learn_current("g", 3)
        assert topologies.current("g") == 3
        await pushed(topologies)
        assert topologies.ask_for("g", 3), "a push that succeeded ends the pause"

    run(test)
