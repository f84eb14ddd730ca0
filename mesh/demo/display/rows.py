"""The rows of the live demo: what the mesh says, joined with what the demo knows of its own consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from mesh.demo.processes.seen import Seen, SeenMember, SeenTopic
from mesh.demo.stage import GROUP, StageState

SPAN = 8.0
"""Seconds over which shares and rates are measured."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member on the screen. share: its part of what its group was given lately, of 1. member: None while the mesh
    does not know it. standing: None for a consumer that is not the demo's."""

    name: str
    group: str
    standing: StageState | None
    member: SeenMember | None
    share: float | None


@dataclass(frozen=True, slots=True)
class TopicRow:
    """Rates in records a second."""

    topic: SeenTopic
    received_rates: Mapping[str, float]
    delivered_rate: float


class Recent:
    """What was seen lately."""

    def __init__(self) -> None:
        self._seen: deque[Seen] = deque()

    def add(self, seen: Seen) -> None:
        """The latest; what is older than SPAN goes."""
        self._seen.append(seen)
        while len(self._seen) > 2 and self._seen[1].at <= seen.at - SPAN:
            self._seen.popleft()

    @property
    def latest(self) -> Seen | None:
        return self._seen[-1] if self._seen else None

    def shares(self) -> dict[str, float]:
        """By member id; members of groups that were given nothing lately are left out."""
        if not self._seen:
            return {}
        earlier = {member.id: member.delivered for member in self._seen[0].members}
        given = {member.id: member.delivered - earlier.get(member.id, 0) for member in self._seen[-1].members}
        totals: dict[str, int] = {}
        for member in self._seen[-1].members:
            totals[member.group] = totals.get(member.group, 0) + given[member.id]
        return {
            member.id: given[member.id] / totals[member.group]
            for member in self._seen[-1].members
            if totals[member.group]
        }

    def topics(self) -> list[TopicRow]:
        if not self._seen:
            return []
        first, last = self._seen[0], self._seen[-1]
        seconds = max(last.at - first.at, 0.001)
        earlier = {topic.name: topic for topic in first.topics}
        rows: list[TopicRow] = []
        for topic in last.topics:
            before = earlier.get(topic.name, SeenTopic(topic.name, {}, 0, 0))
            received = {
                cluster: (count - before.received.get(cluster, 0)) / seconds
                for cluster, count in topic.received.items()
            }
            rows.append(TopicRow(topic, received, (topic.delivered - before.delivered) / seconds))
        return rows


def member_rows(recent: Recent, standings: Mapping[str, StageState]) -> list[MemberRow]:
    """The demo's own consumers first, in the order in which they were started, without killed ones that are gone."""
    shares = recent.shares()
    members = recent.latest.members if recent.latest is not None else ()
    own = {name: [member for member in members if member.client_id == name] for name in standings}
    rows: list[MemberRow] = []
    for name, standing in standings.items():
        # After a freeze it may be there twice: as what it was, and as what it is since it has joined again.
        rows += [MemberRow(name, GROUP, standing, member, shares.get(member.id)) for member in own[name]]
        if not own[name] and standing is not StageState.KILLED:
            rows.append(MemberRow(name, GROUP, standing, None, None))
    names: dict[str, int] = {}
    for member in members:
        if member.client_id not in standings:
            names[member.client_id] = count = names.get(member.client_id, 0) + 1
            name = member.client_id if count == 1 else f"{member.client_id} ({count})"
            rows.append(MemberRow(name, member.group, None, member, shares.get(member.id)))
    return rows
