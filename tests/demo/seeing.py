"""What the mesh says, by hand."""

from __future__ import annotations

from mesh.demo.processes.seen import Seen, SeenMember, SeenTopic
from mesh.demo.stage import GROUP


def member(
    id: str,
    delivered: int = 0,
    held: int = 0,
    redelivered: int = 0,
    client_id: str | None = None,
    group: str = GROUP,
    committed: float | None = 0.5,
    reason: str | None = None,
) -> SeenMember:
    """client_id: the id, if it is not given."""
    return SeenMember(id, group, client_id or id, held, delivered, redelivered, committed, reason)


def seen(at: float, *members: SeenMember, topics: tuple[SeenTopic, ...] = ()) -> Seen:
    return Seen(at, members, topics)
