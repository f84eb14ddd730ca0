"""The offsets that groups have stored outside their home, as far as this process has seen them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_BYTES: Final = 32 << 20
"""The most bytes of remembered offsets, by the sizes counted here."""
_BYTES: Final = 300
"""The assumed bytes of one offset, without its metadata."""


class TopicPartition(NamedTuple):
    """A partition. topic: the clients' name of its topic; in `offset_retention`, the owner's name."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """An offset that a group has stored in a cluster. leader_epoch: -1 if it was committed without one."""

    offset: int
    leader_epoch: int
    metadata: str

    @property
    def size(self) -> int:
        return _BYTES + 4 * len(self.metadata)


class StoredOffsets:
    """The last stored offset of each group and partition. If there are too many, the groups that were used least
    recently are forgotten as a whole."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most: Final = most_bytes
        self._size = 0
        self._groups: OrderedDict[str, dict[TopicPartition, StoredOffset]] = OrderedDict()

    def remember(self, group: str, stored: Iterable[tuple[TopicPartition, StoredOffset]]) -> None:
        """Remembers offsets that are stored."""
        known = self._groups.setdefault(group, {})
        self._groups.move_to_end(group)
        for place, each in stored:
            if (earlier := known.get(place)) is not None:
                self._size -= earlier.size
            known[place] = each
            self._size += each.size
        while self._size > self._most:
            self.forget(next(iter(self._groups)))

    def get(self, group: str) -> Mapping[TopicPartition, StoredOffset]:
        """Returns the remembered offsets of a group."""
        if group not in self._groups:
            return {}
        self._groups.move_to_end(group)
        return self._groups[group]

    def forget_partitions(self, group: str, places: Iterable[TopicPartition]) -> None:
        """Forgets partitions in which no offset is stored any more."""
        known = self._groups.get(group, {})
        for place in places:
            if (earlier := known.pop(place, None)) is not None:
                self._size -= earlier.size

    def forget(self, group: str) -> None:
        for each in self._groups.pop(group, {}).values():
            self._size -= each.size

    def __contains__(self, group: object) -> bool:
        return group in self._groups
