"""Keeps offsets that groups have stored with owners from expiring while the group has members at its home.

A broker drops the offsets of a group without members `offsets.retention.minutes` after they were committed. If the
group once had members of the classic protocol there, that time counts from when the last of them left, however new the
commits are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from mesh.routing.groups.stored_offsets import StoredOffset, StoredOffsets, TopicPartition
from mesh.routing.names import LeafNumber

CHECK_FRACTION: Final = 0.25
"""The interval between two checks, as a fraction of the owner's retention time of offsets."""
FIRST_INTERVAL: Final = 10.0
"""The most seconds from the first to the second check. The first one cannot show which offsets are still being
committed."""
RETRY_INTERVAL: Final = 30.0
"""The most seconds until a group is checked again after its owner did not answer."""
MOST_KEPT: Final = 20_000
"""The most groups to keep offsets of, counted per owner."""
MOST_BYTES: Final = 32 << 20
"""The most bytes of remembered offsets."""


class GroupAtOwner(NamedTuple):
    """A group, and one cluster that owns topics of it without being its home."""

    group: str
    leaf: LeafNumber


class MembersAtOwner(Enum):
    """The membership of a group at an owner.

    NONE: the group has no members there; its offsets expire by the time of their commits. LEFT: it has none now, but
    once had members of the classic protocol. SOME: it has members, which consume from that cluster directly.
    """

    NONE = auto()
    LEFT = auto()
    SOME = auto()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check of a group. is_empty: whether the group has no members at its home; None if the home has
    not answered. members: at the owner. stored: the offsets at the owner, by the owner's names. interval: seconds
    until the next check."""

    is_empty: bool | None
    members: MembersAtOwner
    stored: Mapping[TopicPartition, StoredOffset]
    interval: float


@dataclass(frozen=True, slots=True)
class Renewal:
    """The work that follows a check. commits: offsets to store again. joins: whether a member has to join the group at
    the owner for a moment."""

    commits: Mapping[TopicPartition, StoredOffset]
    joins: bool


NO_RENEWAL: Final = Renewal({}, joins=False)


class OffsetRetention:
    """Schedules the checks of groups whose offsets must not expire, and decides the next step. Times are seconds on any
    clock."""

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_BYTES) -> None:
        self._most: Final = most
        self._due: OrderedDict[GroupAtOwner, float] = OrderedDict()
        self._seen: Final = StoredOffsets(most_bytes)
        """The offsets that the last check of each group found. Only an offset that is the same at the next check is
        stored again: if it changes, another process may be storing a newer one."""

    def add(self, group: GroupAtOwner, now: float) -> bool:
        """Notes that a group has offsets at an owner, and returns True if that is new. A new group is due at once,
        since the age of its offsets is unknown."""
        if group in self._due:
            self._due.move_to_end(group)
            return False
        self._due[group] = now
        while len(self._due) > self._most:
            forgotten, _ = self._due.popitem(last=False)
            self._seen.forget(_key(forgotten))
        return True

    def due(self, now: float) -> list[GroupAtOwner]:
        """Returns the groups that have to be checked now."""
        return [group for group, at in self._due.items() if at <= now]

    @property
    def next_at(self) -> float | None:
        """The time at which the next group is due; None for never."""
        return min(self._due.values(), default=None)

    def checked(self, group: GroupAtOwner, result: CheckResult, now: float) -> Renewal:
        """Takes the result of a check, and returns the work that follows."""
        if group not in self._due:
            return NO_RENEWAL
        if result.is_empty:  # the offsets of an empty group may expire, as in any cluster
            self.forget(group)
            return NO_RENEWAL
        is_first = _key(group) not in self._seen
        self._due[group] = now + (min(result.interval, FIRST_INTERVAL) if is_first else result.interval)
        earlier = self._seen.get(_key(group))
        old = {place: each for place, each in result.stored.items() if earlier.get(place) == each}
        self._seen.forget(_key(group))
        self._seen.remember(_key(group), result.stored.items())
        match result.members:
            case MembersAtOwner.NONE:
                return Renewal(old, joins=False)
            case MembersAtOwner.LEFT:
                return Renewal({}, joins=True)
            case MembersAtOwner.SOME:
                return NO_RENEWAL

    def failed(self, group: GroupAtOwner, interval: float, now: float) -> None:
        """Notes that a check failed, because the owner did not answer or answered with an error."""
        if group in self._due:
            self._due[group] = now + min(interval, RETRY_INTERVAL)
            self._seen.forget(_key(group))

    def forget(self, group: GroupAtOwner) -> None:
        self._due.pop(group, None)
        self._seen.forget(_key(group))


def _key(group: GroupAtOwner) -> str:
    return f"{group.leaf}/{group.group}"
