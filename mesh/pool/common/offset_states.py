"""The states of an offset in the ledger of its partition, and the table of their transitions.

The place of an offset shows its state; nothing is stored for each record. Tests compare the pools with this table:
every offset moves along these transitions only (tests/pool/checks.py). `python -m mesh.pool.common.offset_states`
writes the diagram into docs/how-it-works.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final


class OffsetState(Enum):
    """The state of an offset. The last two are final.

    * AVAILABLE: in the backlog, or to be read again.
    * ACQUIRED: collected for a member, or sent to it.
    * RESTING: waits for the end of its back-off.
    * GIVEN_UP: is being written to the dead-letter topic.
    """

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    RESTING = "resting"
    GIVEN_UP = "given up"
    DEAD_LETTERED = "dead-lettered"
    ACKNOWLEDGED = "acknowledged"


class OffsetEvent(Enum):
    """An event that changes the state of an offset, as the diagram words it."""

    DELIVERED = "is delivered"
    RELEASED = "its member is gone, silent, or sought elsewhere"
    DIED = "its member is gone or silent, with a back-off"
    RESTED = "the back-off is over"
    LIMIT = "delivered in vain too often"
    WRITTEN = "the dead letter is stored"
    COMMITTED = "is committed, or accepted"
    LOCK_OVER = "is released, or its lock is over"
    RENEWED = "its lock is renewed"
    REJECTED = "is rejected"
    UNWRITTEN = "dead letters are not configured"
    GONE = "is gone upstream"


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
"""The settled states. A ledger stores them alike."""


def picture() -> str:
    """Returns the table as a Mermaid diagram. It has one arrow for each pair of states, with all events that lead along
    it."""
    events: dict[tuple[OffsetState, OffsetState], list[str]] = {}
    for (before, event), after in TRANSITIONS.items():
        events.setdefault((before, after), []).append(event.value)
    names = {state: state.value.replace(" ", "_").replace("-", "_") for state in OffsetState}
    lines = [f"    {names[state]} : {state.value}" for state in OffsetState if names[state] != state.value]
    lines.append(f"    [*] --> {names[OffsetState.AVAILABLE]} : is received")
    lines += [
        f"    {names[before]} --> {names[after]} : {'<br>or '.join(labels)}"
        for (before, after), labels in events.items()
    ]
    lines += [f"    {names[state]} --> [*]" for state in OffsetState if state in SETTLED]
    return "\n".join(("```mermaid", "stateDiagram-v2", *lines, "```"))


BEGIN, END = "<!-- states: python -m mesh.pool.common.offset_states -->\n", "\n<!-- /states -->"


def drawn(document: str) -> str:
    """Returns a document with the diagram between its two marks. Raises ValueError if they are missing."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{BEGIN.strip()} and {END.strip()} are missing")
    return head + begin + picture() + end + tail


if __name__ == "__main__":
    file = Path(__file__).parents[3] / "docs" / "how-it-works.md"
    file.write_text(drawn(file.read_text()))
