"""Incarnations of an upstream log. A topic can be deleted and created again under its name, and an unclean election can
truncate its logs.

Each one is an `Incarnation`, linked to the next one. A lease is about the records of one incarnation. The same offsets
may be other records in a later one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from mesh.records.spans import UpstreamPartition

EVERYTHING = 1 << 63
"""An offset above all others."""
MOST_REMEMBERED = 10_000
"""The most entries of `EndedLeases`: a lease counts as one, and each of its partitions as another."""


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """The offsets that two incarnations of a log have in common: those below `below`. is_certain: whether this process
    observed everything between the two. If not, another process or none owned the partition in between."""

    below: int
    is_certain: bool


UNKNOWN_PREFIX = CommonPrefix(EVERYTHING, is_certain=False)


class Incarnation:
    """One incarnation of an upstream log. topic_id: the id of its topic; None while it is not known, "" if it never
    will be."""

    __slots__ = ("common_prefix", "later", "topic_id")

    def __init__(self, topic_id: str | None = None) -> None:
        self.topic_id = topic_id
        self.later: Incarnation | None = None
        self.common_prefix = UNKNOWN_PREFIX
        """The offsets that it has in common with `later`."""

    def followed_by(self, later: Incarnation, common_prefix: CommonPrefix) -> None:
        self.later, self.common_prefix = later, common_prefix


def common_prefix(earlier: Incarnation | None, now: Incarnation, topic_id: str | None) -> CommonPrefix:
    """Returns the offsets that an earlier incarnation has in common with this one. earlier: None if this process does
    not know it. topic_id: the topic id for that case, if known. Topic ids are compared only if nothing else is certain,
    since they may be out of date."""
    below, is_certain, each = EVERYTHING, earlier is not None, earlier
    while each is not None and each is not now and each.later is not None:
        below, is_certain = min(below, each.common_prefix.below), is_certain and each.common_prefix.is_certain
        each = each.later
    its_id = (earlier.topic_id if earlier is not None else None) or topic_id
    if not is_certain and its_id and now.topic_id and its_id != now.topic_id:
        below = 0
    return CommonPrefix(below, is_certain)


class EndedLeases:
    """The incarnations of the logs of leases that ended in this process. The oldest entries are forgotten first."""

    def __init__(self) -> None:
        self._incarnations: OrderedDict[str, Mapping[UpstreamPartition, Incarnation]] = OrderedDict()
        self._size = 0

    def remember(self, lease: str, incarnations: Mapping[UpstreamPartition, Incarnation]) -> None:
        if (before := self._incarnations.pop(lease, None)) is not None:
            self._size -= len(before) + 1
        self._incarnations[lease] = dict(incarnations)
        self._size += len(incarnations) + 1
        while self._size > MOST_REMEMBERED:
            _, oldest = self._incarnations.popitem(last=False)
            self._size -= len(oldest) + 1

    def incarnations(self, lease: str) -> Mapping[UpstreamPartition, Incarnation]:
        return self._incarnations.get(lease, {})
