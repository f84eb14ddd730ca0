"""Moves as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mesh.routing.moves.machine import HELD, Phase
from mesh.runtime.entity_router.moves.mover import Mover


def shown(mover: Mover) -> dict[str, Any]:
    """Returns a move as JSON, for `/moves` and `/status`."""
    move = mover.move
    return {
        "topic": move.topic,
        "at": move.source.path,
        "other": move.target.path,
        "state": state_of(mover),
        "left": mover.left,
        "per_second": round(mover.per_second) if mover.left is not None else None,
        "begun": datetime.fromtimestamp(move.begun / 1000, UTC).isoformat(timespec="seconds"),
        "held_for": round(mover.held_for, 3),
        "carried": sum(len(each) for each in move.unaccepted_offsets.values()),
        "problem": mover.problem or move.problem,
    }


def state_of(mover: Mover) -> str:
    """Returns the state of a move in a word or two."""
    move = mover.move
    match mover.machine.phase:
        case Phase.COPYING:
            return "copying"
        case phase if phase in HELD:
            return "cutting over"
        case Phase.STOPPING:
            return "being given up"
        case _:
            return "moved" if move.has_moved and not move.problem else "given up" if move.problem else "waiting"
