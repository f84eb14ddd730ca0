"""Virtual offsets: the only offsets a member of a pool ever sees.

    virtual offset = slot << 32 | sequence          always below 2^53

A slot names a member for as long as it lives, so that a Fetch, which names no group and no member, can be told apart by
its offsets alone. Slots are given upwards from a random point of the lower half at every start of the process, and each
slot's sequences begin at random below 2^31: an offset of an earlier run, or of another process, is recognised because
it lies in no window (docs/decisions/0003-virtual-offsets-with-slots.md).

Clients follow a position that jumps forward and none that jumps back. So whoever has to be moved gets a slot above the
offset it asked for; the topmost `RESERVED` slots are kept for such moves when ordinary members have used up the rest
and begin again at the bottom.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Generic, NewType, TypeVar

Slot = NewType("Slot", int)
VirtualOffset = NewType("VirtualOffset", int)

SEQUENCE_BITS = 32
SLOT_BITS = 21
SLOTS = 1 << SLOT_BITS
RESERVED = 1 << 16
END_SEQUENCE = (1 << SEQUENCE_BITS) - 1
"""The sequence of no record: `latest` of ListOffsets. A window moves to a new slot before it gets there."""
HIGHEST_OF_EARLIER_RUNS = SLOTS // 2 + SLOTS // 8
"""A run begins in the lower half; one that has given a quarter of a million slots may have come so far."""
FIRST_SEQUENCES = range(1 << 20, 1 << 31)
"""Where sequences begin. Not at 0: the base offset of a batch whose front is settled lies below its first record."""

Owner = TypeVar("Owner")


class SlotsExhausted(Exception):
    """No slot is left above the offset that was asked for."""


def slot_of(offset: int) -> Slot:
    return Slot(offset >> SEQUENCE_BITS)


def is_end(offset: int) -> bool:
    """Whether this is a position that ListOffsets gave as `latest`: no record ever has it."""
    return offset & END_SEQUENCE == END_SEQUENCE


class Slots(Generic[Owner]):
    """The slots of one virtual cluster and who owns them."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._next = generator.randrange(SLOTS // 2)
        self._highest = self._next
        self._owners: dict[Slot, Owner] = {}
        self._starts: dict[Slot, VirtualOffset] = {}

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def has_room(self) -> bool:
        """Whether `give` has a slot."""
        return len(self._owners) < SLOTS - RESERVED

    def owner(self, slot: Slot) -> Owner | None:
        return self._owners.get(slot)

    def start(self, slot: Slot) -> VirtualOffset:
        """The first offset of every partition in this slot."""
        return self._starts[slot]

    @property
    def latest(self) -> VirtualOffset:
        """What ListOffsets answers for `latest`: above every offset that was given since it began anew."""
        return VirtualOffset(self._highest << SEQUENCE_BITS | END_SEQUENCE)

    def give(self, owner: Owner) -> Slot:
        """A slot for a new member.

        Raises SlotsExhausted when as many members live as there are slots.
        """
        for _ in range(len(self._owners) + 1):
            if self._next >= SLOTS - RESERVED:
                self._next = 0
            slot = Slot(self._next)
            self._next += 1
            if slot not in self._owners:
                return self._take(slot, owner)
        raise SlotsExhausted("every slot is taken")

    def give_above(self, owner: Owner, offset: int) -> Slot:
        """A slot for a member that is to go on above `offset`.

        Raises SlotsExhausted when there is none (then `latest` falls to where slots are free, and who asks for it again
        gets one), or when the offset is none of ours and lies higher than an earlier run
        is likely to have come: following it would use up the slots of everybody else.
        """
        asked = slot_of(offset)
        limit = SLOTS if asked <= self._highest else HIGHEST_OF_EARLIER_RUNS
        unused = range(max(asked + 1, self._next), limit)
        for slot in itertools.chain(unused, range(asked + 1, limit)):
            if slot not in self._owners:
                if slot == self._next:
                    self._next += 1
                return self._take(Slot(slot), owner)
        if asked <= self._highest:
            # What was given up to the top is free again for the most part: `latest` begins anew further down.
            self._highest = self._next if self._next < SLOTS - RESERVED else 0
        raise SlotsExhausted(f"no slot above offset {offset}")

    def give_back(self, slot: Slot) -> None:
        del self._owners[slot]
        del self._starts[slot]

    def give_back_all(self, is_meant: Callable[[Owner], bool]) -> None:
        """Every slot of these owners."""
        for slot in [slot for slot, owner in self._owners.items() if is_meant(owner)]:
            self.give_back(slot)

    def _take(self, slot: Slot, owner: Owner) -> Slot:
        self._owners[slot] = owner
        self._starts[slot] = VirtualOffset(slot << SEQUENCE_BITS | self._random.choice(FIRST_SEQUENCES))
        self._highest = max(self._highest, slot)
        return slot
