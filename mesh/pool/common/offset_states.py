"""The states of an offset in the ledger of its partition, and the one table of how it gets from one to another.

Where an offset is kept tells its state: nothing is stored per record. Tests hold the pools to this table: whatever
happens, each offset moves along these lines only (tests/pool/checks.py). `python -m mesh.pool.common.offset_states`
puts the picture into docs/how-it-works.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final


class State(Enum):
    """AVAILABLE: in the backlog, or to be read again. ACQUIRED: collected for a member, or sent to it. RESTING: waits
    for its back-off to be over. GIVEN_UP: is being written to the dead-letter topic. The last two are for ever."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    RESTING = "resting"
    GIVEN_UP = "given up"
    DEAD_LETTERED = "dead-lettered"
    ACKNOWLEDGED = "acknowledged"


class Happening(Enum):
    """In words for the picture."""

    DELIVERED = "is delivered"
    RELEASED = "its member is gone, silent, or sought elsewhere"
    DIED = "the same, in vain, with a back-off"
    RESTED = "the back-off is over"
    LIMIT = "delivered in vain too often"
    WRITTEN = "the dead letter is stored"
    COMMITTED = "is committed"
    GONE = "is not there any more upstream"


TRANSITIONS: Final[Mapping[tuple[State, Happening], State]] = {
    (State.AVAILABLE, Happening.DELIVERED): State.ACQUIRED,
    (State.AVAILABLE, Happening.LIMIT): State.GIVEN_UP,
    (State.AVAILABLE, Happening.GONE): State.ACKNOWLEDGED,
    (State.ACQUIRED, Happening.COMMITTED): State.ACKNOWLEDGED,
    (State.ACQUIRED, Happening.RELEASED): State.AVAILABLE,
    (State.ACQUIRED, Happening.DIED): State.RESTING,
    (State.ACQUIRED, Happening.LIMIT): State.GIVEN_UP,
    (State.ACQUIRED, Happening.GONE): State.ACKNOWLEDGED,
    (State.RESTING, Happening.RESTED): State.AVAILABLE,
    (State.GIVEN_UP, Happening.WRITTEN): State.DEAD_LETTERED,
}
SETTLED: Final = frozenset({State.ACKNOWLEDGED, State.DEAD_LETTERED})
"""What a ledger does not tell apart."""


def picture() -> str:
    """As Mermaid draws it."""
    names = {state: state.value.replace(" ", "_").replace("-", "_") for state in State}
    lines = [f"    {names[state]} : {state.value}" for state in State if names[state] != state.value]
    lines.append(f"    [*] --> {names[State.AVAILABLE]} : is received")
    lines += [
        f"    {names[before]} --> {names[after]} : {happening.value}"
        for (before, happening), after in TRANSITIONS.items()
    ]
    lines += [f"    {names[state]} --> [*]" for state in State if state in SETTLED]
    return "\n".join(("```mermaid", "stateDiagram-v2", *lines, "```"))


BEGIN, END = "<!-- states: python -m mesh.pool.common.offset_states -->\n", "\n<!-- /states -->"


def drawn(document: str) -> str:
    """A document with the picture between its two marks."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{BEGIN.strip()} and {END.strip()} are missing")
    return head + begin + picture() + end + tail


if __name__ == "__main__":
    file = Path(__file__).parents[3] / "docs" / "how-it-works.md"
    file.write_text(drawn(file.read_text()))
