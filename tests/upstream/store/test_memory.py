"""The double does what the store does, as far as tests of others go by it."""

from __future__ import annotations

import pytest

from mesh.upstream.store.documents import DocumentKind, StoreUnavailable, StoreUnreadable
from tests.upstream.harness import run
from tests.upstream.store.memory import MemoryStore

EPOCHS = DocumentKind("epochs", 1)


def test_documents_are_there_when_they_have_been_put() -> None:
    async def test() -> None:
        store = MemoryStore()
        assert await store.put(EPOCHS, "front", "g", {"stored": 1}) is None
        assert await store.put(EPOCHS, "front", "g", {"stored": 2}) == {"stored": 1}
        assert store.get(EPOCHS, "front", "g") == {"stored": 2}
        assert (store.groups(EPOCHS, "front"), store.groups(EPOCHS, "back")) == (["g"], [])
        assert await store.put(EPOCHS, "front", "g", None) == {"stored": 2}
        assert store.get(EPOCHS, "front", "g") is None

    run(test)


def test_it_may_be_away_or_hold_what_is_not_understood() -> None:
    async def test() -> None:
        store = MemoryStore()
        await store.put(DocumentKind("epochs", 2), "front", "g", {})
        with pytest.raises(StoreUnreadable):
            await store.put(EPOCHS, "front", "g", {})
        store.away = "no broker"
        with pytest.raises(StoreUnavailable, match="no broker"):
            store.get(EPOCHS, "front", "h")

    run(test)
