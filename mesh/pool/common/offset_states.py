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


class OffsetState(Enum):
    """AVAILABLE: in the backlog, or to be read again. ACQUIRED: collected for a member, or sent to it. RESTING: waits
    for its back-off to be over. GIVEN_UP: is being written to the dead-letter topic. The last two are for ever."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    RESTING = "resting"
    GIVEN_UP = "given up"
    DEAD_LETTERED = "dead-lettered"
    ACKNOWLEDGED = "acknowledged"


class OffsetEvent(Enum):
    """In words for the picture."""

    DELIVERED = "is delivered"
    RELEASED = "its member is gone, silent, or sought elsewhere"
    DIED = "the same, in vain, with a back-off"
    RESTED = "the back-off is over"
    LIMIT = "delivered in vain too often"
    WRITTEN = "the dead letter is stored"
    COMMITTED = "is committed, or accepted"
    LOCK_OVER = "is released, or its lock is over"
    RENEWED = "its lock is renewed"
    REJECTED = "is rejected"
    UNWRITTEN = "dead letters are not configured"
    GONE = "is not there any more upstream"


TRANSITIONS: Final[Mapping[tuple[OffsetState, OffsetEvent], OffsetState]] = {
    (OffsetState.AVAILABLE, OffsetEvent.DELIVERED): OffsetState.ACQUIRED,
    (OffsetState.AVAILABLE, OffsetEvent.LIMIT): OffsetState.GIVEN_UP,
    (OffsetState.AVAILABLE, OffsetEvent.GONE): OffsetState.ACKNOWLEDGED,
    (OffsetState.ACQUIRED, OffsetEvent.COMMITTED): OffsetState.ACKNOWLEDGED,
    (OffsetState.ACQUIRED, OffsetEvent.RELEASED): OffsetState.AVAILABLE,
    (OffsetState.ACQUIRED, OffsetEvent.DIED): OffsetState.RESTING,
    (OffsetState.ACQUIRED, OffsetEvent.LIMIT): OffsetState.GIVEN_UP,
    (OffsetState.ACQUIRED, OffsetEvent.GONE): OffsetState.ACKNOWLEDGED,
    (OffsetState.ACQUIRED, OffsetEvent.LOCK_OVER): OffsetState.AVAILABLE,
    (OffsetState.ACQUIRED, OffsetEvent.RENEWED): OffsetState.ACQUIRED,
    (OffsetState.ACQUIRED, OffsetEvent.REJECTED): OffsetState.GIVEN_UP,
    (OffsetState.RESTING, OffsetEvent.RESTED): OffsetState.AVAILABLE,
    (OffsetState.GIVEN_UP, OffsetEvent.WRITTEN): OffsetState.DEAD_LETTERED,
    (OffsetState.GIVEN_UP, OffsetEvent.UNWRITTEN): OffsetState.ACKNOWLEDGED,
}
SETTLED: Final = frozenset({OffsetState.ACKNOWLEDGED, OffsetState.DEAD_LETTERED})
"""What a ledger does not tell apart."""


def picture() -> str:
    """As Mermaid draws it."""
    names = {state: state.value.replace(" ", "_").replace("-", "_") for state in OffsetState}
    lines = [f"    {names[state]} : {state.value}" for state in OffsetState if names[state] != state.value]
    lines.append(f"    [*] --> {names[OffsetState.AVAILABLE]} : is received")
    lines += [
        f"    {names[before]} --> {names[after]} : {happening.value}"
        for (before, happening), after in TRANSITIONS.items()
    ]
    lines += [f"    {names[state]} --> [*]" for state in OffsetState if state in SETTLED]
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
