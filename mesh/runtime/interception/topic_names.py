"""The names of topics that clients address by id (KIP-516)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias
from uuid import UUID

from mesh.upstream.links.handshake import Unreachable
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.trees import Tree

AskMetadata: TypeAlias = Callable[[Tree], Awaitable[Tree]]
"""Sends a Metadata request, and returns the response with the names that clients know. Raises Unreachable,
ProtocolError."""

FIRST_BY_ID: Final = 12
"""The first version of Metadata with topic ids. Brokers that serve Fetch by ids have it."""
MOST_KEPT: Final = 100_000


class TopicNames:
    """The names of topics by id, as far as they were looked up. The id of a topic is never used for another one."""

    def __init__(self, ask: AskMetadata) -> None:
        self._ask: Final = ask
        self._known: dict[UUID, str] = {}

    def known(self, topic_id: UUID) -> str | None:
        return self._known.get(topic_id)

    async def learn(self, ids: Collection[UUID]) -> None:
        """Looks up the names of topic ids. Those that no broker knows, or reports now, stay unknown."""
        missing = [each for each in ids if each not in self._known]
        if not missing:
            return
        topics = [{"topic_id": each, "name": None} for each in missing]
        try:
            answer = await self._ask({"topics": topics, "allow_auto_topic_creation": False})
        except (Unreachable, ProtocolError):
            return
        if len(self._known) >= MOST_KEPT:
            self._known.clear()
        for topic in answer["topics"]:
            if topic["error_code"] == ErrorCode.NONE and topic["name"] is not None:
                self._known[topic["topic_id"]] = topic["name"]
