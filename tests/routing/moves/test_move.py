"""Moves as documents."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from mesh.routing.moves.move import Location, Move, Side, UnacceptedOffset, document_of, move_of

MOVE = Move(
    "orders",
    UUID(int=7),
    3,
    Location("eu", "orders"),
    Location("regions/us", "orders"),
    Side.AWAY,
    True,
    (4, 0, 19),
    1_700_000_000_000,
    "gap",
    {"group": {0: UnacceptedOffset(7, -1), 2: UnacceptedOffset(9, 3)}},
    5,
)


def test_a_document_is_read_as_it_was_written() -> None:
    assert move_of("orders", json.loads(json.dumps(document_of(MOVE)))) == MOVE


@pytest.mark.parametrize(("at", "ends", "cuts"), [("away", [1], 1), ("home", [1], 2), ("home", [], 0)])
def test_a_document_from_before_cuts_were_counted(at: str, ends: list[int], cuts: int) -> None:
    document = {**document_of(MOVE), "at": at, "ends": ends}
    del document["cuts"]
    assert move_of("orders", document).cuts == cuts


def test_the_source_is_where_clients_are() -> None:
    assert MOVE.source == MOVE.away
    assert MOVE.target == MOVE.home
    assert MOVE.has_moved


@pytest.mark.parametrize("key", ["id", "home", "at", "ends", "carried"])
def test_a_document_that_is_no_move_is_refused(key: str) -> None:
    for value in (None, "x", 3):
        with pytest.raises((ValueError, TypeError, AttributeError)):
            move_of("orders", {**document_of(MOVE), key: value} if value != "x" else {**document_of(MOVE), "at": "x"})
