"""The state machine of one move: the next steps, and their effects on clients.

The main rule: clients are sent to the other side only after the store has recorded it. If the process ends before that,
the topic is still on its old side; after that it is on the other side. In between nothing is written on either side,
because producers are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, TypeAlias

from mesh.routing.moves.move import Move, UnacceptedOffsets

FEW_RECORDS: Final = 1_000
"""The number of records left to copy below which clients may be held, however slow the copy is."""
SECONDS_LEFT: Final = 1.0
"""The most seconds of copying that may be left when clients are held."""
BETWEEN_CUTS: Final = 5.0
"""Seconds from a postponed cut to the next attempt."""


class Phase(Enum):
    """The phase of a move in this process. Clients are held from DRAINING to CUTTING.

    RESTING: nothing is done. COPYING: records are copied while clients use the source. DRAINING: requests under way are
    answered. FINISHING: the last records are copied. CARRYING: offsets of groups are copied. CUTTING: the store is
    recording the cut. STOPPING: the store is recording that the move has ended, or the copy is being deleted.
    """

    RESTING = auto()
    COPYING = auto()
    DRAINING = auto()
    FINISHING = auto()
    CARRYING = auto()
    CUTTING = auto()
    STOPPING = auto()


HELD: Final = frozenset({Phase.DRAINING, Phase.FINISHING, Phase.CARRYING, Phase.CUTTING})
_MAY_STOP: Final = frozenset({Phase.COPYING, Phase.DRAINING, Phase.FINISHING, Phase.CARRYING})


class WrongPhase(Exception):
    """Raised if a request of an operator does not fit the phase; the message says why."""


@dataclass(frozen=True, slots=True)
class StartCopy:
    """Copy from the source to the target, starting at the end of the target."""


@dataclass(frozen=True, slots=True)
class StopCopy:
    """Stop copying."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold each Produce and each offset commit of the topic, and wait until those under way are answered."""


@dataclass(frozen=True, slots=True)
class Release:
    """Pass held requests on, to the side where the topic is now."""


@dataclass(frozen=True, slots=True)
class CopyRest:
    """Copy up to the end of the source, which gets no further writes."""


@dataclass(frozen=True, slots=True)
class CarryOffsets:
    """Commit the offsets that groups have on the source on the target too."""


@dataclass(frozen=True, slots=True)
class Persist:
    """Write the move to the store, and repeat it until the store has it. move: None removes the move from the store."""

    move: Move | None


@dataclass(frozen=True, slots=True)
class SwitchClients:
    """Send clients to the side where the topic is now."""

    move: Move


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete the copy at the target, which no client has ever been sent to."""

    move: Move


@dataclass(frozen=True, slots=True)
class ReportPostponed:
    """Tell the operator that the cut is postponed, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReportFailed:
    """Tell the operator that the topic stays where it is, and why."""

    reason: str


Effect: TypeAlias = (
    StartCopy
    | StopCopy
    | Hold
    | Release
    | CopyRest
    | CarryOffsets
    | Persist
    | SwitchClients
    | Discard
    | ReportPostponed
    | ReportFailed
)
Effects: TypeAlias = Sequence[Effect]


class MoveMachine:
    """Decides on the steps of one move. Each method takes an event, and returns the effects to carry out in order.
    move: as recorded in the store."""

    def __init__(self, move: Move) -> None:
        self.move = move
        self.phase = Phase.RESTING
        self._wanted: Move | None = None
        """The move that the store is asked to record."""
        self._cut_at = 0.0
        """Clients are not held before this time."""

    @property
    def holds(self) -> bool:
        """True if clients are held."""
        return self.phase in HELD

    def begin(self) -> Effects:
        """Called when the store has recorded the move, or when this process has read it from there. Has no effect if
        the move goes on already, or has ended."""
        if self.phase is not Phase.RESTING or not self.move.is_copying:
            return ()
        self.phase = Phase.COPYING
        return (StartCopy(),)

    def advanced(self, left: int, per_second: float, now: float) -> Effects:
        """Called when more has been copied. left: the records that the target still lacks. per_second: records copied
        per second lately."""
        if self.phase is not Phase.COPYING or now < self._cut_at or left > max(FEW_RECORDS, per_second * SECONDS_LEFT):
            return ()
        self.phase = Phase.DRAINING
        return (Hold(),)

    def drained(self) -> Effects:
        """Called when all writes to the source are answered."""
        if self.phase is not Phase.DRAINING:
            return ()
        self.phase = Phase.FINISHING
        return (CopyRest(),)

    def finished(self, ends: Sequence[int]) -> Effects:
        """Called when both sides have the same records. ends: the end offset of each partition."""
        if self.phase is not Phase.FINISHING:
            return ()
        if len(ends) != self.move.width:
            return self.failed(f"partitions: {len(ends)}, and no longer {self.move.width}")
        self.phase = Phase.CARRYING
        self._wanted = replace(
            self.move,
            at=self.move.at.other,
            is_copying=False,
            ends=tuple(ends),
            problem="",
            unaccepted_offsets={},
            cuts=self.move.cuts + 1,
        )
        return (CarryOffsets(),)

    def offsets_copied(self, unaccepted: UnacceptedOffsets) -> Effects:
        """Called when the target has the offsets of all groups except `unaccepted`."""
        if self.phase is not Phase.CARRYING:
            return ()
        assert self._wanted is not None, "both sides have the same"
        self.phase = Phase.CUTTING
        self._wanted = replace(self._wanted, unaccepted_offsets=unaccepted)
        return (StopCopy(), Persist(self._wanted))

    def persisted(self) -> Effects:
        """Called when the store has recorded the move."""
        match self.phase:
            case Phase.CUTTING:
                assert self._wanted is not None, "it was written"
                self.move, self._wanted, self.phase = self._wanted, None, Phase.RESTING
                return (SwitchClients(self.move), Release())
            case Phase.STOPPING:
                if self._wanted is None:
                    return (Discard(self.move),)
                self.move, self._wanted, self.phase = self._wanted, None, Phase.RESTING
                return (ReportFailed(self.move.problem),) if self.move.problem else ()
            case _:
                return ()

    def held_too_long(self, now: float) -> Effects:
        """Called when clients have been held for the longest allowed time."""
        return self.postpone("clients were held for too long", now)

    def postpone(self, reason: str, now: float) -> Effects:
        """Postpones the cut after a failure that may be temporary."""
        if self.phase not in HELD or self.phase is Phase.CUTTING:  # the store may have recorded the cut already
            return ()
        self.phase, self._wanted = Phase.COPYING, None
        self._cut_at = now + BETWEEN_CUTS
        return (Release(), StartCopy(), ReportPostponed(reason))

    def failed(self, reason: str) -> Effects:
        """Ends the move after a permanent failure."""
        if self.phase not in _MAY_STOP:
            return ()
        return self._stop(replace(self.move, is_copying=False, problem=reason))

    def cancel(self) -> Effects:
        """Ends the move because an operator wants the topic to stay where it is. Raises WrongPhase."""
        if self.phase is Phase.CUTTING:
            raise WrongPhase("the store has not confirmed its cut yet: try again in a moment, or move it back then")
        if self.phase is Phase.STOPPING:
            raise WrongPhase("its move is ending already")
        if self.phase is Phase.RESTING and self.move.has_moved:
            raise WrongPhase("it is not being moved")
        return self._stop(replace(self.move, is_copying=False, problem="") if self.move.has_moved else None)

    def _stop(self, wanted: Move | None) -> Effects:
        held = self.holds
        self.phase, self._wanted = Phase.STOPPING, wanted
        return (StopCopy(), *((Release(),) if held else ()), Persist(wanted))
