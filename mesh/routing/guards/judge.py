"""Judges the requests of one connection."""

from __future__ import annotations

from typing import Final, Protocol

from mesh.routing.guards.asking import Judgement, TopicNames
from mesh.routing.guards.judging import judge
from mesh.routing.guards.metadata import JudgedMetadata, judged_metadata
from mesh.routing.guards.share_sessions import ShareSessions
from mesh.routing.kit.errors import top_level_error
from mesh.security.rules import Access
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree


class Client(Protocol):
    """access: what it may do now."""

    @property
    def access(self) -> Access: ...


class Judge:
    """Of one connection; requests may be judged twice. topics: their names by their ids."""

    def __init__(self, client: Client, topics: TopicNames) -> None:
        self._client: Final = client
        self.topics: Final = topics
        self._share_sessions: Final = ShareSessions()

    @property
    def access(self) -> Access:
        return self._client.access

    def judgement(self, api_key: ApiKey, version: int, request: Tree) -> Judgement | None:
        """Of any API but Metadata. None: it passes as it is, and its answer too."""
        if api_key is ApiKey.SHARE_FETCH:
            effective = self._share_sessions.fetched(request, self.access, self.topics)
            if effective is None:
                error = top_level_error(api_key, version)
                assert error is not None, "each version has one"
                return Judgement(None, {error: int(ErrorCode.SHARE_SESSION_NOT_FOUND)})
            request = effective
        return judge(api_key, version, request, self.access, self.topics)

    def metadata(self, request: Tree, version: int) -> JudgedMetadata:
        return judged_metadata(request, version, self.access, self.topics)
