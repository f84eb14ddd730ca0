"""The story of the records of members that left, from the mesh's status before and after."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mesh.demo.processes.snapshot import MemberSnapshot, MeshSnapshot

_KEPT = 200
_PATIENCE = 30.0
"""Seconds after which the story reports how many of a member's records went to others, even if some are missing."""


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """A line of the story. at: seconds, by the clock of the snapshots."""

    at: float
    text: str


@dataclass(slots=True)
class _ReleasedRecords:
    """The records of a member that left, and the members that have got them since."""

    name: str
    held: int
    since: float
    receivers: dict[str, int] = field(default_factory=dict)

    @property
    def given(self) -> int:
        return sum(self.receivers.values())


class Story:
    """The events, the latest last."""

    def __init__(self, name_of: Callable[[MemberSnapshot], str]) -> None:
        """name_of: returns the name that people see for a member."""
        self.events: deque[StoryEvent] = deque(maxlen=_KEPT)
        self._name_of = name_of
        self._before: Mapping[str, MemberSnapshot] = {}
        self._names: dict[str, str] = {}
        self._released: deque[_ReleasedRecords] = deque()

    def add_event(self, at: float, text: str) -> None:
        """Adds one event."""
        self.events.append(StoryEvent(at, text))

    def add_snapshot(self, snapshot: MeshSnapshot) -> None:
        """Compares a new snapshot of the mesh with the last one. A missing member has left. Records that were
        redelivered since then are those of members that left."""
        now = {member.id: member for member in snapshot.members}
        for id, member in now.items():
            if id not in self._before:
                self._names[id] = self._name_of(member)
                self.add_event(snapshot.at, f"{self._names[id]} is a member of the group {member.group}")
        for id, member in self._before.items():
            if id not in now:
                self._gone(snapshot.at, self._names.pop(id), member.held)
        for id, member in now.items():
            earlier = self._before.get(id)
            if again := member.redelivered - (earlier.redelivered if earlier is not None else 0):
                self._received(self._names[id], again)
        while self._released and self._report_if_done(self._released[0], snapshot.at):
            self._released.popleft()
        self._before = now

    def _gone(self, at: float, name: str, held: int) -> None:
        if not held:
            self.add_event(at, f"{name} has left the group; it held no records")
            return
        self.add_event(at, f"{name} is out of the group: the {_records(held)} that it did not commit go to the others")
        self._released.append(_ReleasedRecords(name, held, at))

    def _received(self, name: str, count: int) -> None:
        for released in self._released:
            part = count if released is self._released[-1] else min(count, released.held - released.given)
            if part > 0:
                released.receivers[name] = released.receivers.get(name, 0) + part
                count -= part

    def _report_if_done(self, released: _ReleasedRecords, at: float) -> bool:
        if released.given < released.held and at - released.since < _PATIENCE:
            return False
        receivers = " and ".join(f"{name} ({count:,})" for name, count in released.receivers.items())
        what = f"{released.name}'s {_records(released.held)}"
        self.add_event(at, f"{what} came to {receivers}" if receivers else f"{what} wait: no member takes them")
        return True


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"
