"""Which log an offset is one of: logs begin anew under their old names, and lose what they had above some offset.

A partition has one life after the other. What is leased of one means its records; the same offsets of a later life may
be other records.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from mesh.records.spans import UpstreamPartition

EVERYTHING = 1 << 63
"""Above every offset."""
MOST_REMEMBERED = 10_000
"""Partitions of leases that have ended, of which it is known for how long their offsets mean the same."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Offsets below `below` are those of both lives. is_certain: whether this process saw all that lay between them;
    else the partition was another process's meanwhile, or nobody's."""

    below: int
    is_certain: bool


UNKNOWN = Shared(EVERYTHING, is_certain=False)


class Life:
    """One life of an upstream log. topic_id: of its topic; None while it is not known, "" if it will not be."""

    __slots__ = ("later", "shared", "topic_id")

    def __init__(self, topic_id: str | None = None) -> None:
        self.topic_id = topic_id
        self.later: Life | None = None
        self.shared = UNKNOWN
        """With the later one."""

    def followed_by(self, later: Life, shared: Shared) -> None:
        self.later, self.shared = later, shared


def shared(earlier: Life | None, now: Life, topic_id: str | None) -> Shared:
    """What an earlier life, or this one, has in common with the one of now. earlier: None if this process does not know
    it; topic_id: then that of its topic, if that is known at least. Ids are compared only where the lives do not tell:
    what is known of one may be old."""
    below, is_certain, life = EVERYTHING, earlier is not None, earlier
    while life is not None and life is not now and life.later is not None:
        below, is_certain = min(below, life.shared.below), is_certain and life.shared.is_certain
        life = life.later
    its_id = (earlier.topic_id if earlier is not None else None) or topic_id
    if not is_certain and its_id and now.topic_id and its_id != now.topic_id:
        below = 0
    return Shared(below, is_certain)


class EndedLeases:
    """Which lives those leases were of that have ended in this process; those that ended first are forgotten first."""

    def __init__(self) -> None:
        self._lives: OrderedDict[str, Mapping[UpstreamPartition, Life]] = OrderedDict()
        self._size = 0

    def remember(self, lease: str, lives: Mapping[UpstreamPartition, Life]) -> None:
        if (before := self._lives.pop(lease, None)) is not None:
            self._size -= len(before) + 1
        self._lives[lease] = dict(lives)
        self._size += len(lives) + 1
        while self._size > MOST_REMEMBERED:
            _, oldest = self._lives.popitem(last=False)
            self._size -= len(oldest) + 1

    def lives(self, lease: str) -> Mapping[UpstreamPartition, Life]:
        return self._lives.get(lease, {})
