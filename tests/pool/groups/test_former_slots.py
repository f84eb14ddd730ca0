"""The groups of slots whose members are gone."""

from __future__ import annotations

from mesh.pool.common.ids import GroupId
from mesh.pool.groups.former_slots import MOST_REMEMBERED, FormerSlots
from mesh.pool.state.slots import Slot
from mesh.security.principals import ANONYMOUS, Principal

SHOP, OTHER = GroupId("shop"), GroupId("other")


def groups(former: FormerSlots, *slots: int, principal: Principal = ANONYMOUS) -> list[GroupId]:
    return [each.group for each in former.of(map(Slot, slots), principal)]


def test_a_slot_has_the_group_that_was_noted_last_for_its_principal() -> None:
    former = FormerSlots()
    former.note(Slot(1), ANONYMOUS, OTHER)
    former.note(Slot(1), ANONYMOUS, SHOP)
    former.note(Slot(1), Principal("User:mallory"), OTHER)
    assert groups(former, 1, 2) == [SHOP]
    assert groups(former, 1, principal=Principal("User:alice")) == []


def test_the_oldest_slot_is_forgotten_first() -> None:
    former = FormerSlots()
    former.note(Slot(0), ANONYMOUS, SHOP)
    former.note(Slot(1), ANONYMOUS, SHOP)
    former.note(Slot(0), ANONYMOUS, SHOP)  # again
    for number in range(2, MOST_REMEMBERED + 1):
        former.note(Slot(number), ANONYMOUS, OTHER)
    assert groups(former, 0, 1) == [SHOP]
    former.note(Slot(MOST_REMEMBERED + 1), ANONYMOUS, OTHER)
    assert groups(former, 0, 1) == []
