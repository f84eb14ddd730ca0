"""The rows of the live demo: the mesh's status, joined with the demo's knowledge of its consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from mesh.demo.processes.snapshot import MemberSnapshot, MeshSnapshot, TopicSnapshot
from mesh.demo.stage import GROUP, StageState

SPAN = 8.0
"""Seconds over which the screen measures shares and rates."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member on the screen. share: its part of the records that its group recently got, from 0 to 1. member: None
    while the mesh does not know it. state: None for a consumer that is not the demo's."""

    name: str
    group: str
    state: StageState | None
    member: MemberSnapshot | None
    share: float | None


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic on the screen, with rates in records a second."""

    topic: TopicSnapshot
    received_rates: Mapping[str, float]
    delivered_rate: float


class Recent:
    """The latest snapshots of the mesh."""

    def __init__(self) -> None:
        self._snapshots: deque[MeshSnapshot] = deque()

    def add(self, snapshot: MeshSnapshot) -> None:
        """Adds the latest snapshot, and drops those older than SPAN."""
        self._snapshots.append(snapshot)
        while len(self._snapshots) > 2 and self._snapshots[1].at <= snapshot.at - SPAN:
            self._snapshots.popleft()

    @property
    def latest(self) -> MeshSnapshot | None:
        return self._snapshots[-1] if self._snapshots else None

    def shares(self) -> dict[str, float]:
        """Returns the shares by member id, without members of groups that got nothing recently."""
        if not self._snapshots:
            return {}
        earlier = {member.id: member.delivered for member in self._snapshots[0].members}
        given = {member.id: member.delivered - earlier.get(member.id, 0) for member in self._snapshots[-1].members}
        totals: dict[str, int] = {}
        for member in self._snapshots[-1].members:
            totals[member.group] = totals.get(member.group, 0) + given[member.id]
        return {
            member.id: given[member.id] / totals[member.group]
            for member in self._snapshots[-1].members
            if totals[member.group]
        }

    def topics(self) -> list[TopicRow]:
        if not self._snapshots:
            return []
        first, last = self._snapshots[0], self._snapshots[-1]
        seconds = max(last.at - first.at, 0.001)
        earlier = {topic.name: topic for topic in first.topics}
        rows: list[TopicRow] = []
        for topic in last.topics:
            before = earlier.get(topic.name, TopicSnapshot(topic.name, {}, 0, 0))
            received = {
                cluster: (count - before.received.get(cluster, 0)) / seconds
                for cluster, count in topic.received.items()
            }
            rows.append(TopicRow(topic, received, (topic.delivered - before.delivered) / seconds))
        return rows


def member_rows(recent: Recent, states: Mapping[str, StageState]) -> list[MemberRow]:
    """Returns the rows of members: the demo's own consumers first, in the order of their start, without killed ones
    that are gone."""
    shares = recent.shares()
    members = recent.latest.members if recent.latest is not None else ()
    own = {name: [member for member in members if member.client_id == name] for name in states}
    rows: list[MemberRow] = []
    for name, state in states.items():
        # After a freeze a consumer may appear twice: as its old member, and as its new one after it joined again.
        rows += [MemberRow(name, GROUP, state, member, shares.get(member.id)) for member in own[name]]
        if not own[name] and state is not StageState.KILLED:
            rows.append(MemberRow(name, GROUP, state, None, None))
    names: dict[str, int] = {}
    for member in members:
        if member.client_id not in states:
            names[member.client_id] = count = names.get(member.client_id, 0) + 1
            name = member.client_id if count == 1 else f"{member.client_id} ({count})"
            rows.append(MemberRow(name, member.group, None, member, shares.get(member.id)))
    return rows
