"""Virtual offsets: the only offsets that a member of a pool sees.

    virtual offset = slot << 32 | sequence      always below 2^53

A slot identifies a member for as long as the member lives. A Fetch names neither its group nor its member, so its
offsets identify the member. At every start the process gives slots upwards from a random point of the lower half. The
sequences of each slot begin at random below 2^31. So an offset of an earlier run, or of another process, is recognised
because it lies in no window (docs/decisions/0003-virtual-offsets-with-slots.md).

Clients follow a position that jumps forward, and none that jumps back. So a member that has to be moved gets a slot
above the offset that it asked for. The topmost `RESERVED` slots are kept for such moves: ordinary members begin again
at the bottom when the slots below are used up.
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
LOWEST = Slot(1)
"""The offsets of slot 0 would look like those of a consumer that begins at the start of a log."""
RESERVED = 1 << 16
END_SEQUENCE = (1 << SEQUENCE_BITS) - 1
"""The sequence of no record: ListOffsets gives it for `latest`. A window moves to a new slot before it reaches it."""
HIGHEST_OF_EARLIER_RUNS = SLOTS // 2 + SLOTS // 8
"""The highest slot that an earlier process is likely to have given. A process begins in the lower half, and may have
given another quarter of a million."""
FIRST_SEQUENCES = range(1 << 20, 1 << 31)
"""The possible first sequences of a slot. They are above 0 because the base offset of a batch with a settled front lies
below its first record."""

Owner = TypeVar("Owner")


class SlotsExhausted(Exception):
    """Raised when no slot is left, or none above the requested offset."""


def slot_of(offset: int) -> Slot:
    return Slot(offset >> SEQUENCE_BITS)


def is_end(offset: int) -> bool:
    """Returns whether ListOffsets gave this offset as `latest`. No record ever has it."""
    return offset & END_SEQUENCE == END_SEQUENCE


class Slots(Generic[Owner]):
    """The slots of one virtual cluster, with their owners."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._next = max(generator.randrange(SLOTS // 2), LOWEST)
        self._highest = self._next
        self._owners: dict[Slot, Owner] = {}
        self._starts: dict[Slot, VirtualOffset] = {}

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def has_room(self) -> bool:
        """True if `give` has a slot."""
        return len(self._owners) < SLOTS - RESERVED - LOWEST

    def owner(self, slot: Slot) -> Owner | None:
        return self._owners.get(slot)

    def start(self, slot: Slot) -> VirtualOffset:
        """Returns the first offset of every partition in this slot."""
        return self._starts[slot]

    @property
    def latest(self) -> VirtualOffset:
        """The answer of ListOffsets for `latest`. It lies above every offset that was given since slots last began
        again at the bottom."""
        return VirtualOffset(self._highest << SEQUENCE_BITS | END_SEQUENCE)

    def give(self, owner: Owner) -> Slot:
        """Gives a slot to a new member.

        Raises SlotsExhausted if all slots have members.
        """
        for _ in range(len(self._owners) + 1):
            if self._next >= SLOTS - RESERVED:
                self._next = LOWEST
            slot = Slot(self._next)
            self._next += 1
            if slot not in self._owners:
                return self._take(slot, owner)
        raise SlotsExhausted("every slot is taken")

    def give_above(self, owner: Owner, offset: int) -> Slot:
        """Gives a slot to a member that continues above `offset`.

        Raises SlotsExhausted if there is none. Then `latest` falls to where slots are free, and a client that asks for
        it again gets one. Also raises it if this process did not give `offset`, and it is too high for an earlier
        process: following such offsets would use up the slots of all other members.
        """
        asked = slot_of(max(offset, 0))
        limit = SLOTS if asked <= self._highest else HIGHEST_OF_EARLIER_RUNS
        unused = range(max(asked + 1, self._next), limit)
        for slot in itertools.chain(unused, range(asked + 1, limit)):
            if slot not in self._owners:
                if slot == self._next:
                    self._next += 1
                return self._take(Slot(slot), owner)
        if asked <= self._highest:
            # Most slots of a full table are free again, so `latest` begins further down again.
            self._highest = self._next if self._next < SLOTS - RESERVED else LOWEST
        raise SlotsExhausted(f"no slot above offset {offset}")

    def give_back(self, slot: Slot) -> None:
        del self._owners[slot]
        del self._starts[slot]

    def give_back_all(self, is_meant: Callable[[Owner], bool]) -> None:
        """Takes back every slot of these owners."""
        for slot in [slot for slot, owner in self._owners.items() if is_meant(owner)]:
            self.give_back(slot)

    def _take(self, slot: Slot, owner: Owner) -> Slot:
        self._owners[slot] = owner
        self._starts[slot] = VirtualOffset(slot << SEQUENCE_BITS | self._random.choice(FIRST_SEQUENCES))
        self._highest = max(self._highest, slot)
        return slot
