"""A move with producers, a copy, a store and crashes, in any order: clients never write to a side that the store does
not name, and no acknowledged record is lost, doubled or reordered."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mesh.routing.moves.machine import (
    BETWEEN_CUTS,
    FEW_RECORDS,
    CarryOffsets,
    CopyRest,
    Discard,
    Effects,
    Hold,
    MoveMachine,
    Persist,
    Phase,
    Release,
    ReportFailed,
    ReportPostponed,
    StartCopy,
    StopCopy,
    SwitchClients,
    WrongPhase,
)
from mesh.routing.moves.move import Location, Move, Side, UnacceptedOffset

MOVE = Move("orders", UUID(int=7), 1, Location("eu", "orders"), Location("us", "orders"))


class Moving(RuleBasedStateMachine):
    """One partition. logs: of both sides; the numbers of records. under_way: requests to the side that they were sent
    to."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[Side, list[int]] = {Side.HOME: [], Side.AWAY: []}
        self.stored: Move | None = MOVE
        self.led = Side.HOME
        self.is_held = False
        self.is_copying = False
        self.under_way: list[tuple[Side, int]] = []
        self.acknowledged: list[int] = []
        self.unanswered: list[int] = []
        self.sent = 0
        self.now = 0.0
        self.waiting: list[object] = []
        self.machine = MoveMachine(MOVE)

    @initialize()
    def begins(self) -> None:
        self.carry_out(self.machine.begin())

    def carry_out(self, effects: Effects) -> None:
        for each in effects:
            match each:
                case StartCopy():
                    self.is_copying = True
                case StopCopy():
                    self.is_copying = False
                case Hold():
                    self.is_held = True
                    self.waiting = [each]
                case Release():
                    self.is_held = False
                    self.waiting = [one for one in self.waiting if isinstance(one, Persist)]
                case CopyRest() | CarryOffsets() | Persist():
                    self.waiting = [each]
                case SwitchClients(move=move):
                    assert self.stored == move
                    self.led = move.at
                case Discard():
                    self.logs[Side.AWAY] = []
                case ReportPostponed() | ReportFailed():
                    pass

    @property
    def is_there(self) -> bool:
        return self.stored is not None

    # Producers

    @precondition(lambda self: not self.is_held)
    @rule(count=st.integers(1, 3))
    def sends(self, count: int) -> None:
        for _ in range(count):
            self.under_way.append((self.led, self.sent))
            self.sent += 1

    @precondition(lambda self: self.under_way)
    @rule()
    def is_acknowledged(self) -> None:
        side, number = self.under_way.pop(0)
        self.logs[side].append(number)
        self.acknowledged.append(number)

    # The copy

    @precondition(lambda self: self.is_copying)
    @rule(count=st.integers(1, 4))
    def copies(self, count: int) -> None:
        source, target = self.logs[self.machine.move.at], self.logs[self.machine.move.at.other]
        assert source[: len(target)] == target
        target += source[len(target) : len(target) + count]

    @precondition(lambda self: self.machine.phase is Phase.COPYING)
    @rule(seconds=st.floats(0, 2 * BETWEEN_CUTS), more=st.sampled_from([0, 0, 10 * FEW_RECORDS]))
    def looks(self, seconds: float, more: int) -> None:
        self.now += seconds
        move = self.machine.move
        left = len(self.logs[move.at]) - len(self.logs[move.at.other]) + more
        self.carry_out(self.machine.advanced(left, 0.0, self.now))

    # Started work ends

    @precondition(lambda self: self.waits_for(Hold) and not self.under_way)
    @rule()
    def drains(self) -> None:
        self.carry_out(self.machine.drained())

    @precondition(lambda self: self.waits_for(CopyRest) and self.logs[Side.HOME] == self.logs[Side.AWAY])
    @rule()
    def finishes(self) -> None:
        self.carry_out(self.machine.finished([len(self.logs[Side.HOME])]))

    @precondition(lambda self: self.waits_for(CarryOffsets))
    @rule(unaccepted_offsets=st.sampled_from([{}, {"group": {0: UnacceptedOffset(3, -1)}}]))
    def carries(self, carried: dict[str, dict[int, UnacceptedOffset]]) -> None:
        self.carry_out(self.machine.offsets_copied(carried))

    @precondition(lambda self: self.waits_for(Persist))
    @rule(is_told=st.booleans(), is_stored=st.booleans())
    def stores(self, is_told: bool, is_stored: bool) -> None:
        """An answer of the store may be lost; then the move asks again."""
        (persist,) = self.waiting
        assert isinstance(persist, Persist)
        if is_told or is_stored:
            self.stored = persist.move
        if is_told:
            self.waiting = []
            self.carry_out(self.machine.persisted())

    def waits_for(self, kind: type) -> bool:
        return any(isinstance(each, kind) for each in self.waiting)

    # Failures

    @rule()
    def puts_off(self) -> None:
        self.carry_out(self.machine.postpone("a broker did not answer", self.now))

    @rule()
    def holds_too_long(self) -> None:
        self.carry_out(self.machine.held_too_long(self.now))

    @rule()
    def fails(self) -> None:
        self.carry_out(self.machine.failed("transactions"))

    @rule()
    def is_cancelled(self) -> None:
        if self.is_there:
            try:
                effects = self.machine.cancel()
            except WrongPhase:
                return
            self.carry_out(effects)

    @precondition(lambda self: self.machine.phase is Phase.RESTING and self.machine.move.has_moved)
    @rule()
    def goes_again(self) -> None:
        """An operator moves it to its other side; the store has that before anything happens."""
        if self.stored is None:
            return
        self.stored = replace(self.machine.move, is_copying=True, problem="")
        self.machine = MoveMachine(self.stored)
        self.carry_out(self.machine.begin())

    @precondition(lambda self: self.machine.phase is not Phase.RESTING or self.stored is None)
    @rule()
    def begins_late(self) -> None:
        """A move that goes on already, or was cancelled, begins only once."""
        assert self.machine.begin() == ()

    @rule(lands=st.lists(st.booleans(), max_size=20))
    def is_killed(self, lands: list[bool]) -> None:
        """Requests in flight have reached their broker, or never will. Their producers repeat them, with the same
        numbers."""
        again: list[int] = []
        for index, (side, number) in enumerate(self.under_way):
            if index < len(lands) and lands[index] and not again:
                self.logs[side].append(number)
                self.acknowledged.append(number)  # a repeated one, which the broker recognizes
            else:
                again.append(number)
        self.is_held = self.is_copying = False
        self.waiting = []
        if self.stored is None:
            self.under_way = [(Side.HOME, number) for number in again]
            self.led = Side.HOME
            self.machine = MoveMachine(replace(MOVE, is_copying=False, problem="taken away"))
            return
        self.machine = MoveMachine(self.stored)
        self.led = self.stored.at
        self.under_way = [(self.led, number) for number in again]
        self.carry_out(self.machine.begin())

    # Invariants

    @invariant()
    def clients_are_where_the_store_says(self) -> None:
        if not self.is_held:
            assert self.led is (Side.HOME if self.stored is None else self.stored.at)

    @invariant()
    def they_are_held_as_long_as_the_machine_says(self) -> None:
        assert self.is_held is self.machine.holds

    @invariant()
    def all_is_there_once_and_in_order(self) -> None:
        assert self.logs[self.led] == self.acknowledged or (
            self.is_held and self.logs[self.machine.move.at] == self.acknowledged
        )

    @invariant()
    def the_other_side_has_the_beginning(self) -> None:
        side = self.led
        mine, other = self.logs[side], self.logs[side.other]
        assert mine[: len(other)] == other


TestMoving = Moving.TestCase


def test_a_cut_that_is_being_stored_is_not_undone() -> None:
    machine = _until_cutting()
    assert machine.held_too_long(99.0) == ()
    assert machine.postpone("the target is away", 99.0) == ()
    assert machine.failed("diverged") == ()
    with pytest.raises(WrongPhase, match="the store has not confirmed its cut yet"):
        machine.cancel()


def test_partitions_that_were_added_end_a_move() -> None:
    machine = MoveMachine(MOVE)
    machine.begin()
    machine.advanced(0, 0.0, 0.0)
    machine.drained()
    effects = machine.finished([1, 2])
    assert [type(each) for each in effects] == [StopCopy, Release, Persist]
    assert machine.persisted() == (ReportFailed("partitions: 2, and no longer 1"),)


def test_a_cancelled_move_does_not_begin() -> None:
    machine = MoveMachine(MOVE)
    assert machine.cancel() == (StopCopy(), Persist(None))
    assert machine.begin() == ()
    assert machine.phase is Phase.STOPPING
    assert machine.persisted() == (Discard(MOVE),)
    assert machine.begin() == ()


def test_a_move_begins_once() -> None:
    machine = MoveMachine(MOVE)
    assert machine.begin() == (StartCopy(),)
    assert machine.advanced(0, 0.0, 0.0) == (Hold(),)
    assert machine.begin() == ()
    assert machine.phase is Phase.DRAINING


def test_what_is_copied_in_a_second_may_be_left() -> None:
    machine = MoveMachine(MOVE)
    machine.begin()
    assert machine.advanced(50_001, 50_000.0, 0.0) == ()
    assert machine.advanced(50_000, 50_000.0, 0.0) == (Hold(),)


def test_a_move_that_rests_is_cancelled_only_if_clients_were_never_led() -> None:
    with pytest.raises(WrongPhase, match="it is not being moved"):
        MoveMachine(replace(MOVE, is_copying=False, ends=(3,), at=Side.AWAY)).cancel()
    given_up = MoveMachine(replace(MOVE, is_copying=False, problem="gap"))
    assert given_up.cancel() == (StopCopy(), Persist(None))
    assert given_up.persisted() == (Discard(given_up.move),)


def _until_cutting() -> MoveMachine:
    machine = MoveMachine(MOVE)
    machine.begin()
    machine.advanced(0, 0.0, 0.0)
    machine.drained()
    machine.finished([0])
    machine.offsets_copied({})
    assert machine.phase is Phase.CUTTING
    return machine
