"""What a process has seen of offsets that groups stored in clusters which are not their home."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_BYTES: Final = 32 << 20
"""Of all that is remembered, as far as it is counted."""
_BYTES: Final = 300
"""Of one, without its metadata."""


class Place(NamedTuple):
    """A partition, by the name of its topic that clients know."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """leader_epoch: -1 if it was committed without."""

    offset: int
    leader_epoch: int
    metadata: str

    @property
    def size(self) -> int:
        return _BYTES + 4 * len(self.metadata)


class StoredOffsets:
    """The last stored offset of each group and partition. The groups that were used last are kept; of a group for which
    there is no room nothing is."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most: Final = most_bytes
        self._size = 0
        self._groups: OrderedDict[str, dict[Place, StoredOffset]] = OrderedDict()

    def saw(self, group: str, stored: Iterable[tuple[Place, StoredOffset]]) -> None:
        """They are stored."""
        known = self._groups.setdefault(group, {})
        self._groups.move_to_end(group)
        for place, each in stored:
            if (earlier := known.get(place)) is not None:
                self._size -= earlier.size
            known[place] = each
            self._size += each.size
        while self._size > self._most:
            self.forget(next(iter(self._groups)))

    def of(self, group: str) -> Mapping[Place, StoredOffset]:
        """What is known of a group."""
        if group not in self._groups:
            return {}
        self._groups.move_to_end(group)
        return self._groups[group]

    def gone(self, group: str, places: Iterable[Place]) -> None:
        """Nothing is stored there any more."""
        known = self._groups.get(group, {})
        for place in places:
            if (earlier := known.pop(place, None)) is not None:
                self._size -= earlier.size

    def forget(self, group: str) -> None:
        for each in self._groups.pop(group, {}).values():
            self._size -= each.size

    def __contains__(self, group: object) -> bool:
        return group in self._groups
