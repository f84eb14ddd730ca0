"""The record of a move in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID


class Side(StrEnum):
    """One side of a move. HOME: where the topic was before its first move. AWAY: the other side."""

    HOME = "home"
    AWAY = "away"

    @property
    def other(self) -> Side:
        return Side.AWAY if self is Side.HOME else Side.HOME


class Location(NamedTuple):
    """A topic's place on one side. path: the routes to its cluster, joined by `/`. topic: its name there."""

    path: str
    topic: str


class UnacceptedOffset(NamedTuple):
    """An offset of a group that the target did not accept as a commit without a member. was: the offset that the target
    has stored instead. As long as the target still has that one, `offset` is the group's offset."""

    offset: int
    was: int


UnacceptedOffsets: TypeAlias = Mapping[str, Mapping[int, UnacceptedOffset]]
"""Offsets by group and partition."""


@dataclass(frozen=True, slots=True)
class Move:
    """A topic that is being moved, or was moved.

    topic, id, width: its name, topic id and number of partitions, as clients know them. at: the side that clients use.
    is_copying: whether it is being copied to the other side. ends: the end offset of each partition at the last cut;
    empty before the first one. cuts: the number of cuts so far. begun: when the last copy began, in ms since the epoch.
    problem: why the move was given up; "" if it was not. unaccepted_offsets: group offsets that the cluster in use did
    not accept. replicas: of each partition at the other side; -1 for the cluster's default.
    """

    topic: str
    id: UUID
    width: int
    home: Location
    away: Location
    at: Side = Side.HOME
    is_copying: bool = True
    ends: tuple[int, ...] = ()
    begun: int = 0
    problem: str = ""
    unaccepted_offsets: UnacceptedOffsets = field(default_factory=dict)
    cuts: int = 0
    replicas: int = -1

    @property
    def has_moved(self) -> bool:
        """True if clients were ever sent to the other side."""
        return bool(self.ends)

    @property
    def source(self) -> Location:
        """The side that clients use."""
        return self.home if self.at is Side.HOME else self.away

    @property
    def target(self) -> Location:
        """The side that clients do not use."""
        return self.away if self.at is Side.HOME else self.home


def document_of(move: Move) -> dict[str, Any]:
    """Returns the JSON document of a move."""
    carried = {
        group: {str(partition): list(each) for partition, each in offsets.items()}
        for group, offsets in move.unaccepted_offsets.items()
    }
    return {
        "id": str(move.id),
        "width": move.width,
        "home": list(move.home),
        "away": list(move.away),
        "at": move.at.value,
        "is_going": move.is_copying,
        "ends": list(move.ends),
        "cuts": move.cuts,
        "begun": move.begun,
        "problem": move.problem,
        "carried": carried,
        "replicas": move.replicas,
    }


def move_of(topic: str, document: Mapping[str, Any]) -> Move:
    """Returns the move in a JSON document. Raises ValueError, KeyError or TypeError if the document has none."""
    carried = {
        group: {int(partition): UnacceptedOffset(*map(int, each)) for partition, each in offsets.items()}
        for group, offsets in document["carried"].items()
    }
    at, ends = Side(document["at"]), tuple(map(int, document["ends"]))
    return Move(
        topic,
        UUID(document["id"]),
        int(document["width"]),
        Location(*map(str, document["home"])),
        Location(*map(str, document["away"])),
        at,
        bool(document["is_going"]),
        ends,
        int(document["begun"]),
        str(document["problem"]),
        carried,
        int(document.get("cuts", _least_cuts(at) if ends else 0)),
        int(document.get("replicas", -1)),
    )


def _least_cuts(at: Side) -> int:
    """Returns the least number of cuts for a document that was written before cuts were counted. Clients have seen no
    epochs of it."""
    return 1 if at is Side.AWAY else 2
