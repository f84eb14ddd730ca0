"""Keeps the offsets that groups have stored with owners from expiring there, as long as the group has members at home.

A broker drops offsets of a group without members `offsets.retention.minutes` after they were committed; if the group
once had members of the classic protocol there, after the last of them has left, however new the commits are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from mesh.routing.groups.stored_offsets import Place, StoredOffset, StoredOffsets
from mesh.routing.names import LeafNumber

PART: Final = 0.25
"""Of the time after which an owner drops offsets: between two looks."""
SOON: Final = 10.0
"""Seconds after the first look, at which it is not known which offsets are still being committed."""
AGAIN: Final = 30.0
"""Seconds until an owner that has not answered is looked at again, at most."""
MOST_KEPT: Final = 20_000
"""Groups of owners."""
MOST_BYTES: Final = 32 << 20
"""Of the offsets of the last looks."""


class GroupAtOwner(NamedTuple):
    """A group, and a cluster that is not its home and has topics of it."""

    group: str
    leaf: LeafNumber


class Members(Enum):
    """The members of a group at an owner.

    NONE: it has no members, and its commits are as old as they are. GONE: it once had members of the classic protocol.
    SOME: it has members, who consume there directly.
    """

    NONE = auto()
    GONE = auto()
    SOME = auto()


@dataclass(frozen=True, slots=True)
class Look:
    """The findings of one look at a group. is_empty: whether the group has no members at home; None: the home has not
    answered. members: at the owner. stored: there, by the names of the owner. interval: seconds until the next look."""

    is_empty: bool | None
    members: Members
    stored: Mapping[Place, StoredOffset]
    interval: float


@dataclass(frozen=True, slots=True)
class Deed:
    """The work that follows a look. commits: to be stored again. joins: a member is to join for a moment, and leave."""

    commits: Mapping[Place, StoredOffset]
    joins: bool


NOTHING: Final = Deed({}, joins=False)


class Keeping:
    """When which group is to be looked at, and what is to be done then. Times are seconds on any clock."""

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_BYTES) -> None:
        self._most: Final = most
        self._due: OrderedDict[GroupAtOwner, float] = OrderedDict()
        self._seen: Final = StoredOffsets(most_bytes)
        """Of the last looks. What is not the same at the next one is new, and what is committed every moment is never
        stored again: another process might store something newer at the same time."""

    def notice(self, group: GroupAtOwner, now: float) -> bool:
        """The group has offsets there. Whether that is news: it is due at once, as nobody knows how old they are."""
        if group in self._due:
            self._due.move_to_end(group)
            return False
        self._due[group] = now
        while len(self._due) > self._most:
            forgotten, _ = self._due.popitem(last=False)
            self._seen.forget(_key(forgotten))
        return True

    def due(self, now: float) -> list[GroupAtOwner]:
        """Those that are to be looked at now."""
        return [group for group, at in self._due.items() if at <= now]

    @property
    def next_at(self) -> float | None:
        """When something is due; None for never."""
        return min(self._due.values(), default=None)

    def looked(self, group: GroupAtOwner, look: Look, now: float) -> Deed:
        """What is to be done after a look."""
        if group not in self._due:
            return NOTHING
        if look.is_empty:  # offsets of a group that nobody is in expire as anywhere
            self.forget(group)
            return NOTHING
        is_first = _key(group) not in self._seen
        self._due[group] = now + (min(look.interval, SOON) if is_first else look.interval)
        earlier = self._seen.of(_key(group))
        old = {place: each for place, each in look.stored.items() if earlier.get(place) == each}
        self._seen.forget(_key(group))
        self._seen.saw(_key(group), look.stored.items())
        match look.members:
            case Members.NONE:
                return Deed(old, joins=False)
            case Members.GONE:
                return Deed({}, joins=True)
            case Members.SOME:
                return NOTHING

    def failed(self, group: GroupAtOwner, interval: float, now: float) -> None:
        """The owner has not answered, or not carried out what was to be done."""
        if group in self._due:
            self._due[group] = now + min(interval, AGAIN)
            self._seen.forget(_key(group))

    def forget(self, group: GroupAtOwner) -> None:
        self._due.pop(group, None)
        self._seen.forget(_key(group))


def _key(group: GroupAtOwner) -> str:
    return f"{group.leaf}/{group.group}"
