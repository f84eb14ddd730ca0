"""The fetch sessions of one client (KIP-227), which a broker would keep: incremental Fetches name only changes.

They follow Kafka's `kafka.server.FetchSession`, but a session here also ends with its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mesh.routing.one_node.leaders import Topic
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree, topic_of

MOST_SESSIONS: Final = 8
"""The most sessions of one connection; one more ends the oldest. Clients use one session."""
MOST_PARTITIONS: Final = 100_000
"""The most partitions in all sessions of one connection. A request with more is served without a session."""
NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
"""The epoch of a request that opens a session."""
NO_EPOCH: Final = -1
"""The epoch of a request without a session. It ends the session that the request names."""
FIRST_WITH_SESSIONS: Final = 7
FIRST_WITH_TOPIC_IDS: Final = 13
_HIGHEST: Final = (1 << 31) - 1
_NOTHING: Final = -1

Key: TypeAlias = "tuple[Topic, int]"
"""A partition: its topic, by the name or id that requests use, and its number."""


@dataclass(slots=True)
class _SessionPartition:
    """A partition of a session. request: its element of the request. high_watermark, log_start: the last values that
    the client got; -1 for none."""

    request: Tree
    high_watermark: int = _NOTHING
    log_start: int = _NOTHING


@dataclass(slots=True, eq=False)
class FetchSession:
    """A fetch session. epoch: the epoch that its next request must have."""

    id: int
    has_topic_ids: bool
    epoch: int = FIRST_EPOCH + 1
    partitions: dict[Key, _SessionPartition] = field(default_factory=dict)

    def maybe_update_response(self, key: Key, told: Tree, *, is_full: bool) -> bool:
        """Returns True if an answer must contain a partition's element, and remembers that the client gets it, like
        Kafka's `CachedPartition.maybeUpdateResponseData`. is_full: whether the answer has all partitions."""
        kept = self.partitions.get(key)
        if kept is None:
            return True
        has_records = bool(told["records"])
        is_new = has_records or is_full
        if kept.high_watermark != told["high_watermark"]:
            kept.high_watermark, is_new = told["high_watermark"], True
        if kept.log_start != (start := told.get("log_start_offset", _NOTHING)):
            kept.log_start, is_new = start, True
        if told["error_code"]:  # the next answer then tells the client that the error is over
            kept.high_watermark, is_new = _NOTHING, True
        if (told.get("diverging_epoch") or {}).get("epoch", -1) >= 0 or told.get("preferred_read_replica", -1) >= 0:
            is_new = True
        if has_records:  # partitions without records come first the next time
            self.partitions[key] = self.partitions.pop(key)
        return is_new


@dataclass(frozen=True, slots=True)
class Resolved:
    """A Fetch with all its partitions, including those that only its session names. partitions: in the order in which
    to serve them. session: None for a Fetch without one. is_full: whether the answer must contain all partitions."""

    partitions: Mapping[Key, Tree]
    session: FetchSession | None
    is_full: bool

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.id


class FetchSessions:
    """The fetch sessions of one connection. new_id: returns a number above 0, which may be the id of a session
    already."""

    def __init__(self, new_id: Callable[[], int]) -> None:
        self._new_id: Final = new_id
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, version: int, request: Tree) -> Resolved | ErrorCode:
        """Adds the partitions of its session to a Fetch, or returns the top-level error of the answer. request: as read
        in this version."""
        id, epoch = request.get("session_id", NO_SESSION), request.get("session_epoch", NO_EPOCH)
        asked = dict(_partitions(request))
        if version < FIRST_WITH_SESSIONS or epoch == NO_EPOCH:
            self._sessions.pop(id, None)
            return Resolved(asked, None, True)
        if epoch == FIRST_EPOCH:
            self._sessions.pop(id, None)
            return Resolved(asked, self._begun(asked, version >= FIRST_WITH_TOPIC_IDS), True)
        session = self._sessions.get(id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.has_topic_ids != (version >= FIRST_WITH_TOPIC_IDS):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return self._continued(session, asked, request)

    def _begun(self, asked: Mapping[Key, Tree], has_topic_ids: bool) -> FetchSession | None:
        while self._sessions and (len(self._sessions) >= MOST_SESSIONS or self._has_no_room(len(asked))):
            del self._sessions[next(iter(self._sessions))]
        if len(asked) > MOST_PARTITIONS:
            return None
        while (id := self._new_id()) in self._sessions:
            pass
        session = self._sessions[id] = FetchSession(id, has_topic_ids)
        session.partitions = {key: _SessionPartition(each) for key, each in asked.items()}
        return session

    def _continued(self, session: FetchSession, asked: Mapping[Key, Tree], request: Tree) -> Resolved | ErrorCode:
        new = sum(key not in session.partitions for key in asked)
        if new and self._has_no_room(new):
            del self._sessions[session.id]
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # the client then begins a new session with all its partitions
        for key, each in asked.items():
            if (kept := session.partitions.get(key)) is not None:
                kept.request = each
            else:
                session.partitions[key] = _SessionPartition(each)
        for key in _forgotten(request):
            session.partitions.pop(key, None)
        if not session.partitions:
            del self._sessions[session.id]
            return Resolved({}, None, True)
        session.epoch = next_epoch(session.epoch)
        return Resolved({key: each.request for key, each in session.partitions.items()}, session, False)

    def _has_no_room(self, more: int) -> bool:
        return more + sum(len(each.partitions) for each in self._sessions.values()) > MOST_PARTITIONS


def next_epoch(epoch: int) -> int:
    """Returns the epoch that follows in a session."""
    return epoch + 1 if epoch < _HIGHEST else FIRST_EPOCH + 1


def _partitions(request: Tree) -> Iterator[tuple[Key, Tree]]:
    for topic in request["topics"]:
        name = topic_of(topic)
        for each in topic["partitions"]:
            yield (name, each["partition"]), each


def _forgotten(request: Tree) -> Iterator[Key]:
    for topic in request.get("forgotten_topics_data", ()):
        for partition in topic["partitions"]:
            yield (topic_of(topic), partition)
