"""Judges the requests of one connection."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol
from uuid import UUID

from mesh.routing.guards.authorization import Judgement, TopicIdNames
from mesh.routing.guards.judging import judge
from mesh.routing.guards.metadata import JudgedMetadata, judged_metadata
from mesh.routing.guards.share_sessions import ShareSessionTopics
from mesh.routing.kit.errors import top_level_error
from mesh.security.rules import Access, Operation, ResourceType
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree


class JudgedClient(Protocol):
    """The client of a connection. access: its current permissions."""

    @property
    def access(self) -> Access: ...


class Judge:
    """Judges the requests of one connection. It may judge the same request twice. topics: the names of topics, by
    id."""

    def __init__(self, client: JudgedClient, topics: TopicIdNames) -> None:
        self._client: Final = client
        self.topics: Final = topics
        self._share_sessions: Final = ShareSessionTopics()

    @property
    def access(self) -> Access:
        return self._client.access

    def judgement(self, api_key: ApiKey, version: int, request: Tree) -> Judgement | None:
        """Returns the judgement on a request of any API but Metadata. None: the request and its answer pass
        unchanged."""
        if api_key is ApiKey.SHARE_FETCH:
            return self._share_fetch(version, request)
        return judge(api_key, version, request, self.access, self.topics)

    def _share_fetch(self, version: int, request: Tree) -> Judgement | None:
        """Returns the judgement on a ShareFetch. A client that may not read the group has no session here, and none at
        the cluster."""
        group = request["group_id"] or ""
        if not self.access.allows(Operation.READ, ResourceType.GROUP, group):
            return judge(ApiKey.SHARE_FETCH, version, {**request, "group_id": group}, self.access, self.topics)
        completed = self._share_sessions.fetched(request, self.access, self.topics)
        if completed is None:
            error = top_level_error(ApiKey.SHARE_FETCH, version)
            assert error is not None, "each version has one"
            return Judgement(None, {error: int(ErrorCode.SHARE_SESSION_NOT_FOUND)})
        judgement = judge(ApiKey.SHARE_FETCH, version, completed, self.access, self.topics)
        if judgement is None and completed is not request:
            return Judgement(completed)  # topics that are allowed by now are in it
        return judgement

    @property
    def share_topics(self) -> Collection[UUID]:
        """The ids of the topics that the answer to the last judged ShareFetch may have."""
        return self._share_sessions.topics

    def metadata(self, request: Tree, version: int) -> JudgedMetadata:
        return judged_metadata(request, version, self.access, self.topics)
