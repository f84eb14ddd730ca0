"""Fetch sessions with brokers (KIP-227), one for each broker of a client's Fetches. With a session, requests and
answers about a thousand partitions contain only changes.

They follow Kafka's `org.apache.kafka.clients.FetchSessionHandler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mesh.routing.one_node.fetch_sessions import (
    FIRST_EPOCH,
    FIRST_WITH_SESSIONS,
    FIRST_WITH_TOPIC_IDS,
    NO_EPOCH,
    NO_SESSION,
    Key,
    next_epoch,
)
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

FEWEST: Final = 20
"""The fewest partitions of a leg for which a session is opened. A broker keeps only a thousand sessions, and fewer
partitions cost little without one."""
_OF_SESSIONS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class SessionPart:
    """The session fields of a Fetch to a broker. partitions: those of the leg that are new, or have changed since the
    last request. forgotten: partitions of the session that the leg no longer has."""

    id: int
    epoch: int
    partitions: Mapping[Key, Tree]
    forgotten: Sequence[Key]


class LegSession:
    """The fetch session with one broker. Its requests come one after the other."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._has_topic_ids = False
        self._is_used = False
        """True while a request in the session is under way."""
        self._known: dict[Key, Tree] = {}

    def next_request(self, version: int, partitions: Mapping[Key, Tree]) -> SessionPart:
        """Returns the session fields of the next request. partitions: all partitions of the leg."""
        has_topic_ids = version >= FIRST_WITH_TOPIC_IDS
        is_new = self._epoch == FIRST_EPOCH or has_topic_ids != self._has_topic_ids
        self._is_used = version >= FIRST_WITH_SESSIONS and not (is_new and len(partitions) < FEWEST)
        if not self._is_used:
            return SessionPart(NO_SESSION, NO_EPOCH, partitions, ())
        if is_new:
            self._epoch, self._has_topic_ids, self._known = FIRST_EPOCH, has_topic_ids, dict(partitions)
            return SessionPart(self._id, FIRST_EPOCH, partitions, ())
        known = self._known
        # Most elements are equal to those of the last request.
        changed = {key: part for key, part in partitions.items() if (was := known.get(key)) is not part and was != part}
        known.update(changed)
        forgotten = [key for key in known if key not in partitions] if len(known) > len(partitions) else []
        for key in forgotten:
            del known[key]
        return SessionPart(self._id, self._epoch, changed, forgotten)

    def take_answer(self, id: int, error: int) -> bool:
        """Takes the answer of the broker. Returns True if the broker has lost the session, so that the leg must be
        requested again in full. id, error: the session id and the top-level error of the answer."""
        if not self._is_used:
            return False
        if error:
            self.reset()
            return error in _OF_SESSIONS
        is_refused = id == NO_SESSION or (self._epoch != FIRST_EPOCH and id != self._id)
        self._id, self._epoch = id, FIRST_EPOCH if is_refused else next_epoch(self._epoch)
        return False

    def reset(self) -> None:
        """Called when the broker may or may not have handled a request: the next request opens a new session, and ends
        this one."""
        self._epoch = FIRST_EPOCH
        self._known = {}
