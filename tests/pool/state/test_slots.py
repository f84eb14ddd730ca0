"""Slots: the owners of virtual offsets."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.identity.connections import looks_virtual
from mesh.pool.state.slots import (
    END_SEQUENCE,
    HIGHEST_OF_EARLIER_RUNS,
    LOWEST,
    RESERVED,
    SEQUENCE_BITS,
    SLOTS,
    Slot,
    Slots,
    SlotsExhausted,
    is_end,
    slot_of,
)

SEEDS = st.integers(0, 1 << 32).map(random.Random)


def slots(seed: int = 1) -> Slots[str]:
    return Slots(random.Random(seed))


@given(SEEDS)
def test_slots_go_upwards_from_a_random_point_of_the_lower_half(generator: random.Random) -> None:
    given_out = Slots[str](generator)
    first, second = given_out.give("a"), given_out.give("b")
    assert LOWEST <= first < SLOTS // 2
    assert second == first + 1


class Lowest(random.Random):
    """A generator that always returns the lowest number."""

    def getrandbits(self, k: int, /) -> int:
        return 0


def test_each_offset_looks_like_a_virtual_one() -> None:
    """The next process would take the offsets of slot 0 for those of a consumer without a group, at the start of a log:
    it would deliver all records again."""
    given_out = Slots[str](Lowest())
    first = given_out.give("a")
    given_out._next = SLOTS - RESERVED
    for slot in (first, given_out.give("a"), given_out.give_above("a", 0)):
        assert looks_virtual(given_out.start(slot))


def test_the_random_point_differs_between_starts() -> None:
    assert len({slots(seed).give("a") for seed in range(20)}) > 15


@given(SEEDS)
def test_each_sequence_starts_at_random_below_2_to_the_31(generator: random.Random) -> None:
    given_out = Slots[str](generator)
    sequences = {given_out.start(given_out.give("a")) & END_SEQUENCE for _ in range(5)}
    assert len(sequences) > 1
    assert all(0 < sequence < 1 << 31 for sequence in sequences)


@given(SEEDS, st.integers(0, (1 << 63) - 1))
def test_a_virtual_offset_stays_below_2_to_the_53(generator: random.Random, asked: int) -> None:
    given_out = Slots[str](generator)
    given_out.give("a")
    try:
        slot = given_out.give_above("a", asked)
    except SlotsExhausted:
        assert slot_of(asked) >= SLOTS - RESERVED - 1
    else:
        assert given_out.start(slot) > asked
    assert given_out.latest < 1 << 53


def test_an_owner_is_known_by_its_slot_until_it_gives_it_back() -> None:
    given_out = slots()
    slot = given_out.give("a")
    assert given_out.owner(slot) == "a"
    assert len(given_out) == 1
    given_out.give_back(slot)
    assert given_out.owner(slot) is None
    assert len(given_out) == 0


def test_latest_lies_above_every_offset_given_and_no_record_ever_has_it() -> None:
    given_out = slots()
    low, high = given_out.give("a"), given_out.give("b")
    assert given_out.latest > given_out.start(high) > given_out.start(low)
    given_out.give_back(high)
    assert given_out.latest == high << SEQUENCE_BITS | 0xFFFFFFFF
    assert is_end(given_out.latest)
    assert not is_end(given_out.start(low))


def test_a_member_that_has_to_move_gets_a_slot_above_the_offset_it_asked_for() -> None:
    given_out = slots()
    given_out.give("a")
    moved = given_out.give_above("a", given_out.latest)
    assert given_out.start(moved) > given_out.latest - END_SEQUENCE
    assert moved == slot_of(given_out.latest)  # the highest, now


def test_a_slot_that_was_given_back_is_not_given_again_while_there_are_fresh_ones() -> None:
    """A virtual offset is never given to a second record."""
    given_out = slots()
    low = given_out.give("a")
    used = given_out.give("b")
    given_out.give_back(used)
    assert given_out.give_above("a", low << SEQUENCE_BITS) > used
    assert given_out.give("c") > used + 1


def test_ordinary_members_begin_again_at_the_bottom_and_leave_the_topmost_slots_to_those_that_move() -> None:
    given_out = slots()
    given_out._next = SLOTS - RESERVED - 1
    last, first = given_out.give("a"), given_out.give("b")
    assert (last, first) == (SLOTS - RESERVED - 1, LOWEST)
    assert given_out.give_above("a", last << SEQUENCE_BITS) == SLOTS - RESERVED


def test_slots_in_use_are_left_out_when_they_begin_again() -> None:
    given_out = slots()
    given_out._next = LOWEST
    held = given_out.give("a")
    given_out._next = SLOTS - RESERVED
    assert given_out.give("b") == held + 1


def test_nobody_is_led_into_the_reserved_slots_by_an_offset_that_was_never_given() -> None:
    given_out = slots()
    given_out.give("a")
    with pytest.raises(SlotsExhausted):
        given_out.give_above("a", (SLOTS - RESERVED) << SEQUENCE_BITS)
    with pytest.raises(SlotsExhausted):
        given_out.give_above("a", (1 << 63) - 1)


def test_an_offset_that_was_never_given_leads_no_further_than_an_earlier_run_may_have_come() -> None:
    given_out = slots()
    given_out.give("a")
    with pytest.raises(SlotsExhausted):
        given_out.give_above("a", HIGHEST_OF_EARLIER_RUNS << SEQUENCE_BITS)
    last = HIGHEST_OF_EARLIER_RUNS - 2
    assert given_out.give_above("a", last << SEQUENCE_BITS) == last + 1


def test_every_slot_of_an_owner_is_given_back_at_once() -> None:
    given_out = slots()
    given_out.give("a")
    kept = given_out.give("b")
    given_out.give("a")
    given_out.give_back_all(lambda owner: owner == "a")
    assert len(given_out) == 1
    assert given_out.owner(kept) == "b"


def test_a_slot_is_found_in_a_step_or_two_however_many_members_there_are() -> None:
    class Counting(dict[Slot, str]):
        looked = 0

        def __contains__(self, slot: object) -> bool:
            Counting.looked += 1
            return super().__contains__(slot)

    given_out = slots()
    first = given_out.give("a")
    for _ in range(2_000):
        given_out.give("a")
    given_out._owners = Counting(given_out._owners)
    given_out.give("b")
    given_out.give_above("b", first << SEQUENCE_BITS)
    assert Counting.looked <= 4


def test_a_consumer_that_starts_at_the_latest_finds_a_slot_however_often_others_did_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stranger may let a member move as often as it likes; this shuts out no other member. With few slots: the test
    goes through all of them."""
    few = 1 << 12
    monkeypatch.setattr("mesh.pool.state.slots.SLOTS", few)
    monkeypatch.setattr("mesh.pool.state.slots.RESERVED", few * RESERVED // SLOTS)
    monkeypatch.setattr("mesh.pool.state.slots.HIGHEST_OF_EARLIER_RUNS", few * HIGHEST_OF_EARLIER_RUNS // SLOTS)
    given_out = slots()
    mine = given_out.give("a")
    refused = 0
    for _ in range(3 * few // 2):
        try:
            moved = given_out.give_above("b", given_out.latest)
        except SlotsExhausted:
            refused += 1
            moved = given_out.give_above("b", given_out.latest)
        assert moved != mine
        given_out.give_back(moved)
    assert 0 < refused < 5
    assert given_out.owner(mine) == "a"
