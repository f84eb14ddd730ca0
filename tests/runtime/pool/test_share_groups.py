"""The stored state of share groups: over restarts, with other writers, and while the store is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from mesh.apis.answers import Answer
from mesh.pool.common.effects import ChangeGroupConfigs, Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import GroupConfigsChanged
from mesh.runtime.pool.share_groups import KIND, MOST_REMEMBERED, ShareGroups
from mesh.upstream.store.documents import Document, DocumentKind
from mesh.wire.errors import ErrorCode
from tests.upstream.store.memory import MemoryStore

BILLING, SHIPPING = GroupId("billing"), GroupId("shipping")
LIMIT, LOCK = "share.delivery.count.limit", "share.record.lock.duration.ms"

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def changed(kept: ShareGroups, group: GroupId, changes: Mapping[str, str | None]) -> tuple[ErrorCode, str]:
    answered: asyncio.Future[tuple[ErrorCode, str]] = asyncio.get_running_loop().create_future()

    def carry_out(effects: Sequence[Effect]) -> None:
        (effect,) = effects
        assert isinstance(effect, Answer)
        assert effect.ticket == "ticket"
        assert isinstance(effect.result, GroupConfigsChanged)
        answered.set_result(effect.result.outcomes[group])

    kept.change(ChangeGroupConfigs("ticket", {group: changes}), carry_out)
    return await answered


async def settled(kept: ShareGroups) -> None:
    while kept._working:
        await asyncio.gather(*kept._working)


async def test_what_is_set_outlives_a_restart_and_is_seen_by_another_process() -> None:
    store = MemoryStore()
    first, second = ShareGroups("vc", store), ShareGroups("vc", store)
    assert await changed(first, BILLING, {LIMIT: "7"}) == (ErrorCode.NONE, "")
    assert second.overrides(BILLING) == {LIMIT: "7"}
    assert await changed(second, BILLING, {LOCK: "20000"}) == (ErrorCode.NONE, "")
    assert first.overrides(BILLING) == {LIMIT: "7", LOCK: "20000"}
    assert first.configured() == {BILLING}
    assert ShareGroups("another", store).overrides(BILLING) == {}
    assert await changed(first, BILLING, {LIMIT: None, LOCK: None}) == (ErrorCode.NONE, "")
    assert not store.documents


async def test_what_is_set_stays_when_members_come() -> None:
    store = MemoryStore()
    kept = ShareGroups("vc", store)
    await changed(kept, BILLING, {LIMIT: "7"})
    assert not kept.knows(BILLING)
    kept.keep(BILLING)
    await settled(kept)
    again = ShareGroups("vc", store)
    assert again.overrides(BILLING) == {LIMIT: "7"}
    assert again.knows(BILLING)
    assert again.groups() == {BILLING}


class Hasty(MemoryStore):
    """Another process writes just before each of the first writes of this one."""

    def __init__(self, others: list[Document]) -> None:
        super().__init__()
        self.others = others

    async def put(
        self, kind: DocumentKind, virtual_cluster: str, group: str, document: Document | None
    ) -> Document | None:
        if self.others:
            await super().put(kind, virtual_cluster, group, self.others.pop(0))
        return await super().put(kind, virtual_cluster, group, document)


async def test_nothing_is_lost_that_another_process_sets_meanwhile() -> None:
    store = Hasty([{"configs": {LOCK: "20000"}}])
    kept = ShareGroups("vc", store)
    assert await changed(kept, BILLING, {LIMIT: "7"}) == (ErrorCode.NONE, "")
    assert kept.overrides(BILLING) == {LIMIT: "7", LOCK: "20000"}


async def test_a_quarrel_is_answered() -> None:
    store = Hasty([{"configs": {LOCK: str(20_000 + number)}} for number in range(9)])
    code, message = await changed(ShareGroups("vc", store), BILLING, {LIMIT: "7"})
    assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "others change the same group" in message


async def test_without_a_store_nothing_is_set_and_groups_are_remembered() -> None:
    kept = ShareGroups("vc", None)
    assert not kept.is_loading
    code, message = await changed(kept, BILLING, {LIMIT: "7"})
    assert code is ErrorCode.INVALID_REQUEST
    assert "store: {cluster: NAME, topic: NAME}" in message
    kept.keep(BILLING)
    assert kept.groups() == {BILLING}
    assert await kept.forget([BILLING, SHIPPING]) == {BILLING}
    assert not kept.groups()
    for number in range(MOST_REMEMBERED + 5):
        kept.keep(GroupId(str(number)))
    assert len(kept.groups()) == MOST_REMEMBERED


async def test_while_the_store_is_away() -> None:
    store = MemoryStore()
    kept = ShareGroups("vc", store)
    await changed(kept, BILLING, {LIMIT: "7"})
    store.away = "the store has not been read yet"
    assert kept.is_loading
    assert (kept.overrides(BILLING), kept.configured(), kept.groups()) == ({}, set(), set())
    assert await changed(kept, BILLING, {LIMIT: "8"}) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, store.away)
    kept.keep(SHIPPING)
    await settled(kept)
    assert not kept.knows(SHIPPING), "its next heartbeat says it again"
    store.away = None
    kept.keep(SHIPPING)
    await settled(kept)
    assert kept.groups() == {SHIPPING}


async def test_what_others_have_written_is_not_trusted() -> None:
    store = MemoryStore()
    await store.put(KIND, "vc", BILLING, {"configs": {LIMIT: 7, LOCK: "20000"}, "had_members": 1})
    await store.put(KIND, "vc", SHIPPING, {"configs": [LIMIT]})
    kept = ShareGroups("vc", store)
    assert kept.overrides(BILLING) == {LOCK: "20000"}
    assert kept.overrides(SHIPPING) == {}


async def test_a_deleted_group_is_forgotten_with_what_was_set() -> None:
    store = MemoryStore()
    kept = ShareGroups("vc", store)
    await changed(kept, BILLING, {LIMIT: "7"})
    kept.keep(SHIPPING)
    await settled(kept)
    assert await kept.forget([BILLING, SHIPPING, GroupId("unknown")]) == {BILLING, SHIPPING}
    assert not store.documents
    assert not kept.groups()
    kept.close()
