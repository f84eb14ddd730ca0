"""The parts of a process that a changed configuration concerns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mesh.app.configured_target import ChangedConfig
from mesh.app.target_parts import TargetParts
from mesh.app.targets import linked_clusters
from mesh.app.virtual_clusters import VirtualClusters
from mesh.config.changes import (
    Change,
    ClusterChanged,
    ClusterLoginChanged,
    VirtualClusterAdded,
    VirtualClusterChanged,
    VirtualClusterRemoved,
    VirtualClusterRenewed,
)
from mesh.config.model import Config, PoolTargetConfig
from mesh.records.spans import ClusterName


@dataclass(frozen=True, slots=True)
class ReloadPlan:
    """The parts of a process that a changed configuration concerns.

    ended, begun: virtual clusters that stop, and those that start afterwards; one that restarts is in both. left: the
    clusters that each of the other virtual clusters leaves, at least for a while. changed: the changed keys of each
    virtual cluster whose clients stay connected. linked: the clusters to which targets get new connections.
    other_logins: clusters that have only another user name or password.
    """

    ended: frozenset[str]
    begun: frozenset[str]
    left: Mapping[str, frozenset[ClusterName]]
    changed: Mapping[str, tuple[str, ...]]
    linked: frozenset[ClusterName]
    other_logins: frozenset[ClusterName]

    @property
    def concerned(self) -> frozenset[str]:
        """Returns the virtual clusters that are prepared, since they start or change."""
        return self.begun | self.changed.keys()

    @property
    def touched(self) -> frozenset[str]:
        """Returns the virtual clusters that start, change or leave a cluster."""
        return self.concerned | {name for name, clusters in self.left.items() if clusters}


def reconnected(changes: Sequence[Change]) -> frozenset[ClusterName]:
    """Returns the clusters that get new connections."""
    return frozenset(ClusterName(each.name) for each in changes if isinstance(each, ClusterChanged))


def with_other_logins(changes: Sequence[Change]) -> frozenset[ClusterName]:
    """Returns the clusters that have only another user name or password."""
    return frozenset(ClusterName(each.name) for each in changes if isinstance(each, ClusterLoginChanged))


def may_need_parts(config: Config, changes: Sequence[Change], missing: Collection[str]) -> set[str]:
    """Returns the virtual clusters that may start or change. missing: those that do not run as configured."""
    added = VirtualClusterAdded | VirtualClusterChanged | VirtualClusterRenewed
    named = {each.name for each in changes if isinstance(each, added)}
    if reconnected(changes):  # targets with connections of their own restart
        named |= {each.name for each in config.virtual_clusters if not isinstance(each.target, PoolTargetConfig)}
    return named | set(missing)


def plan_of(
    before: Config,
    config: Config,
    changes: Sequence[Change],
    virtual_clusters: VirtualClusters,
    missing: Collection[str],
    parts: Mapping[str, TargetParts],
) -> ReloadPlan:
    """Plans a change. before: the running configuration. missing: virtual clusters that do not run as configured.
    parts: those of the virtual clusters in `may_need_parts`."""
    changed = {each.name: each.keys for each in changes if isinstance(each, VirtualClusterChanged)}
    ended = {each.name for each in changes if isinstance(each, VirtualClusterRemoved | VirtualClusterRenewed)}
    begun = {each.name for each in changes if isinstance(each, VirtualClusterAdded | VirtualClusterRenewed)}
    left: dict[str, frozenset[ClusterName]] = {}
    connected = reconnected(changes)
    running = virtual_clusters.names()
    for configured in config.virtual_clusters:
        name = configured.name
        if name in begun or name not in running or name in missing:
            begun.add(name)
            ended |= {name} & set(running)
            continue
        wanted = ChangedConfig(configured, config.routers, parts.get(name, TargetParts(name)))
        clusters = virtual_clusters.clusters_to_leave(wanted, connected)
        if clusters is None:
            ended.add(name)
            begun.add(name)
        else:
            left[name] = clusters
    ended &= set(running)
    linked = _newly_linked(before, config, connected, begun)
    return ReloadPlan(frozenset(ended), frozenset(begun), left, changed, frozenset(linked), with_other_logins(changes))


def _newly_linked(
    before: Config, config: Config, connected: Collection[ClusterName], begun: Collection[str]
) -> set[ClusterName]:
    """Returns the clusters to which targets get new connections."""
    had = {name for each in before.virtual_clusters for name in linked_clusters(each, before.routers)}
    linked = [(each.name in begun, linked_clusters(each, config.routers)) for each in config.virtual_clusters]
    return {name for begins, names in linked for name in names if begins or name in connected or name not in had}
