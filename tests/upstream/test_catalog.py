"""The catalog notices that a cluster refuses the mesh's login, although the connection that it has is still served."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from mesh.upstream import catalog as catalog_module
from mesh.upstream.catalog import CatalogEvent, CatalogUnreachable, CatalogUpdate, TopicCatalog
from mesh.upstream.problems import UpstreamProblem
from tests.upstream.harness import CLUSTER, TIMEOUT, run

EXPIRED = "SSL handshake failed: alert certificate expired"


class FakeTopics:
    """A cluster's answer."""

    topics: ClassVar[Mapping[str, Any]] = {}


class FakeAdmin:
    """An admin client. The cluster serves each connection for good, and refuses new ones after the first."""

    made = 0

    def __init__(self, properties: Mapping[str, Any]) -> None:
        FakeAdmin.made += 1
        self._is_served = FakeAdmin.made == 1
        self._complain = properties["error_cb"]

    def poll(self, _: float) -> None:
        if not self._is_served:
            self._complain(KafkaError(KafkaError._SSL, EXPIRED))

    def list_topics(self, timeout: float) -> FakeTopics:
        if not self._is_served:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata: Local: transport failure"))
        return FakeTopics()


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_look_uses_a_new_connection_now_and_then(is_asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeAdmin, "made", 0)
    monkeypatch.setattr(catalog_module, "AdminClient", FakeAdmin)
    monkeypatch.setattr(catalog_module, "SHORTEST_INTERVAL", 0.01)
    monkeypatch.setattr(catalog_module, "SHORTEST_LIFE" if is_asked else "CONNECTS_ANEW", 0.0)

    async def test() -> None:
        events: asyncio.Queue[CatalogEvent] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        catalog = TopicCatalog(CLUSTER, "broker:9092", {}, 600, events.put_nowait, loop)
        async with asyncio.timeout(TIMEOUT):
            assert isinstance(await events.get(), CatalogUpdate)
            (catalog.connect_soon if is_asked else catalog.refresh_soon)()
            assert await events.get() == CatalogUnreachable(CLUSTER, EXPIRED, UpstreamProblem.ENCRYPTION)
        catalog.close()

    run(test)
