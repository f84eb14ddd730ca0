"""What faults take away from members, and for how long."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from tests.chaos.actors import ClusterActor, Members, MeshActor
from tests.chaos.evidence import Disturbance
from tests.chaos.journals import ChaosMember

AFTERMATH = 12.0
"""Seconds after a disturbance in which records may still come again because of it: sessions, timeouts, joins."""


@dataclass(slots=True)
class Going:
    """A disturbance in progress. members: None for all. back: when the clusters were used again."""

    clusters: tuple[ClusterActor, ...]
    members: tuple[ChaosMember, ...] | None
    back: float = inf


class Notes:
    """All that was disturbed."""

    def __init__(self, meshes: Sequence[MeshActor], members: Members) -> None:
        self._meshes = meshes
        self._members = members
        self.disturbances: list[Disturbance] = []
        self._under_way = 0

    @property
    def is_calm(self) -> bool:
        """True if no disturbance affects all members, nor did so a while ago."""
        return self.is_calm_but_for(0)

    def is_calm_but_for(self, under_way: int) -> bool:
        now = time.monotonic()
        recent = any(each.members is None and each.end > now for each in self.disturbances)
        return not recent and self._under_way <= under_way and all(mesh.is_reachable for mesh in self._meshes)

    @contextmanager
    def disturbing(
        self,
        what: str,
        members: Iterable[ChaosMember] | None = None,
        clusters: Iterable[ClusterActor] = (),
        forgets: bool = False,
    ) -> Iterator[Going]:
        going = Going(tuple(clusters), None if members is None else tuple(members))
        begin, going.members = time.monotonic(), self._who_loses(going.members)
        self._under_way += 1
        try:
            yield going
        finally:
            self._under_way -= 1
            self.note(what, begin, going.members, going.clusters, forgets, going.back)

    def note(
        self,
        what: str,
        begin: float,
        members: Iterable[ChaosMember] | None = None,
        clusters: Iterable[ClusterActor] = (),
        forgets: bool = False,
        back: float = inf,
    ) -> None:
        members = self._who_loses(None if members is None else tuple(members))
        concerned = None if members is None else frozenset(each.name for each in members)
        # With several meshes, an event that concerns all members may move partitions.
        forgets = forgets or (len(self._meshes) > 1 and concerned is None)
        names = frozenset(each.cluster.name for each in clusters)
        end = time.monotonic() + AFTERMATH
        self.disturbances.append(Disturbance(what, begin, end, concerned, names, forgets, back))

    def _who_loses(self, members: tuple[ChaosMember, ...] | None) -> tuple[ChaosMember, ...] | None:
        """Returns all members if one of these may be the first or the last one of its mesh: then the mesh joins the
        group upstream, or leaves it."""
        is_one_mesh = len(self._meshes) == 1
        return members if is_one_mesh or not any(self._members.may_be_alone(each) for each in members or ()) else None
