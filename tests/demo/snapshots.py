"""Status and metrics of a mesh, written by hand."""

from __future__ import annotations

from mesh.demo.processes.snapshot import MemberSnapshot, MeshSnapshot, TopicSnapshot
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
) -> MemberSnapshot:
    """client_id: the id by default."""
    return MemberSnapshot(id, group, client_id or id, held, delivered, redelivered, committed, reason)


def snapshot(at: float, *members: MemberSnapshot, topics: tuple[TopicSnapshot, ...] = ()) -> MeshSnapshot:
    return MeshSnapshot(at, members, topics)
