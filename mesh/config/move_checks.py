"""Checks of `moves` together with the store, the target and the rest of its virtual cluster."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.config.finding import Finding
from mesh.config.graphs import graph_of
from mesh.config.mistakes import KeyPath
from mesh.config.model import Config, VirtualClusterConfig
from mesh.config.routers import RouterTargetConfig
from mesh.routing.graph import Decides


def check_moves(config: Config) -> Iterator[Finding]:
    for index, each in enumerate(config.virtual_clusters):
        if each.moves is not None:
            path: KeyPath = ("virtual_clusters", index, "moves")
            if config.store is None:
                allowed = "with store, {cluster: NAME, topic: NAME}: the mesh keeps there which cluster has a topic"
                yield Finding(path, {}, allowed, (("store",),))
            if config.workers > 1:
                allowed = "left out with workers: one process alone may lead clients to another cluster"
                yield Finding(path, {}, allowed, (("workers",),))
            if config.peers is not None:
                allowed = "left out with peers: one process alone may lead clients to another cluster"
                yield Finding(path, {}, allowed, (("peers",),))
            yield from _target(config, each, path)


def _target(config: Config, virtual_cluster: VirtualClusterConfig, path: KeyPath) -> Iterator[Finding]:
    target = virtual_cluster.target
    if not isinstance(target, RouterTargetConfig):
        allowed = "left out: only a router has clusters that a topic could be moved between"
        yield Finding(path, {}, allowed, ((*path[:-1], "target"),))
        return
    routers = graph_of(config, target.router.name).routers
    if any(each.decides is not Decides.NAMES for each in routers.values()):
        allowed = "left out, or a router that decides by names, in front of such routers only"
        yield Finding(path, {}, allowed, ((*path[:-1], "target"),))
