"""What happened to the records of members that went: told from what the mesh says of itself before and after."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mesh.demo.processes.seen import Seen, SeenMember

_KEPT = 200
_PATIENCE = 30.0
"""Seconds after which it is told what of the records of a member went to others, though it is not all."""


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """A line. at: seconds, of the clock of what was seen."""

    at: float
    text: str


@dataclass(slots=True)
class _Estate:
    """What a member that went had held, and who was given it since."""

    name: str
    held: int
    since: float
    heirs: dict[str, int] = field(default_factory=dict)

    @property
    def given(self) -> int:
        return sum(self.heirs.values())


class Story:
    """The events, the latest last."""

    def __init__(self, name_of: Callable[[SeenMember], str]) -> None:
        """name_of: what people call a member."""
        self.events: deque[StoryEvent] = deque(maxlen=_KEPT)
        self._name_of = name_of
        self._before: Mapping[str, SeenMember] = {}
        self._names: dict[str, str] = {}
        self._estates: deque[_Estate] = deque()

    def tell(self, at: float, text: str) -> None:
        """One event more."""
        self.events.append(StoryEvent(at, text))

    def saw(self, seen: Seen) -> None:
        """What the mesh says now. Whoever is missing has gone; what was given once more since is of those who went."""
        now = {member.id: member for member in seen.members}
        for id, member in now.items():
            if id not in self._before:
                self._names[id] = self._name_of(member)
                self.tell(seen.at, f"{self._names[id]} is a member of the group {member.group}")
        for id, member in self._before.items():
            if id not in now:
                self._gone(seen.at, self._names.pop(id), member.held)
        for id, member in now.items():
            earlier = self._before.get(id)
            if again := member.redelivered - (earlier.redelivered if earlier is not None else 0):
                self._inherited(self._names[id], again)
        while self._estates and self._is_told(self._estates[0], seen.at):
            self._estates.popleft()
        self._before = now

    def _gone(self, at: float, name: str, held: int) -> None:
        if not held:
            self.tell(at, f"{name} has left the group; it held nothing")
            return
        self.tell(at, f"{name} is out of the group: the {_records(held)} it had not committed go to the others")
        self._estates.append(_Estate(name, held, at))

    def _inherited(self, name: str, count: int) -> None:
        for estate in self._estates:
            part = count if estate is self._estates[-1] else min(count, estate.held - estate.given)
            if part > 0:
                estate.heirs[name] = estate.heirs.get(name, 0) + part
                count -= part

    def _is_told(self, estate: _Estate, at: float) -> bool:
        if estate.given < estate.held and at - estate.since < _PATIENCE:
            return False
        heirs = " and ".join(f"{name} ({count:,})" for name, count in estate.heirs.items())
        what = f"{estate.name}'s {_records(estate.held)}"
        self.tell(at, f"{what} came to {heirs}" if heirs else f"{what} wait: nobody takes them")
        return True


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"
