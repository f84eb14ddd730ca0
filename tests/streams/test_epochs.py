"""Stored and failed epochs: every transition."""

from __future__ import annotations

import pytest

from mesh.streams.epochs import NONE, UNCERTAIN, Epochs, about_to_change, was_deleted, was_refused, was_set


@pytest.mark.parametrize("stored", [NONE, UNCERTAIN, 0, 5])
def test_nobody_knows_while_the_plugin_is_called(stored: int) -> None:
    assert about_to_change(Epochs(stored, 3)) == Epochs(UNCERTAIN, 3)


@pytest.mark.parametrize(
    ("before", "epoch", "after"),
    [(UNCERTAIN, 5, 5), (3, 5, 5), (5, 3, 5), (5, 5, 5), (UNCERTAIN, 0, 0), (NONE, 5, UNCERTAIN)],
)
def test_an_epoch_that_was_set_is_stored_unless_one_was_deleted_meanwhile(before: int, epoch: int, after: int) -> None:
    assert was_set(Epochs(before, 1, 2), epoch, 2) == Epochs(after, 1, 2)


def test_an_epoch_that_was_set_is_not_stored_where_one_was_deleted_meanwhile_and_another_push_has_begun() -> None:
    begun = about_to_change(Epochs())
    again = about_to_change(was_deleted(about_to_change(begun)))
    assert was_set(again, 5, begun.deletions).stored == UNCERTAIN
    assert was_set(again, 5, again.deletions).stored == 5


@pytest.mark.parametrize(("before", "epoch", "after"), [(NONE, 5, 5), (5, 3, 5), (3, 5, 5), (NONE, 0, 0)])
def test_a_refused_epoch_only_rises(before: int, epoch: int, after: int) -> None:
    assert was_refused(Epochs(UNCERTAIN, before), epoch) == Epochs(UNCERTAIN, after)


@pytest.mark.parametrize(("before", "after"), [(UNCERTAIN, NONE), (NONE, NONE), (5, UNCERTAIN), (0, UNCERTAIN)])
def test_what_was_deleted_is_gone_unless_one_was_pushed_meanwhile(before: int, after: int) -> None:
    assert was_deleted(Epochs(before, 2, 3)) == Epochs(after, 2, 4)


@pytest.mark.parametrize(("stored", "has"), [(NONE, False), (UNCERTAIN, True), (0, True)])
def test_the_plugin_may_have_something_unless_it_is_known_that_it_has_not(stored: int, has: bool) -> None:
    assert Epochs(stored).has_description is has
