"""The table of transitions, and its picture."""

from __future__ import annotations

from pathlib import Path

from mesh.pool.common.offset_states import SETTLED, TRANSITIONS, OffsetEvent, OffsetState, drawn, picture
from tests.pool.checks import reachable

DOCUMENT = Path(__file__).parents[3] / "docs" / "how-it-works.md"


def test_the_picture_in_the_document_is_that_of_the_table() -> None:
    text = DOCUMENT.read_text()
    assert drawn(text) == text, "python -m mesh.pool.common.offset_states draws it"
    arrows = {(before, after) for (before, _), after in TRANSITIONS.items()}
    assert picture().count("-->") == len(arrows) + 1 + len(SETTLED)
    assert all(event.value in picture() for event in OffsetEvent)


def test_what_is_settled_stays_so() -> None:
    for state in SETTLED:
        assert reachable(state) == {state}


def test_everything_is_settled_at_last_and_every_word_is_used() -> None:
    assert all(reachable(state) & SETTLED for state in OffsetState)
    assert reachable(OffsetState.AVAILABLE) == set(OffsetState)
    assert {happening for _, happening in TRANSITIONS} == set(OffsetEvent)
