"""Checks of a configuration for several processes: their needs, and the features that one process alone
must count or keep it."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.config.finding import Finding
from mesh.config.mistakes import KeyPath, format_path
from mesh.config.model import Config, PoolTargetConfig
from mesh.config.pool import LimitOf
from mesh.config.routers import ToPoolConfig
from mesh.interceptors.spi import Effect, On
from mesh.interceptors.types import UnknownInterceptorType, class_of


def check_peers(config: Config) -> Iterator[Finding]:
    if config.peers is None:
        return
    if not config.peers.urls:
        yield Finding(("peers", "urls"), (), "at least one")
    if config.admin is None:
        allowed = "nothing without an admin address: the other processes ask this one, too"
        yield Finding(("peers",), {}, allowed, (("admin",),))


def check_workers(config: Config) -> Iterator[Finding]:
    if config.workers == 1:
        return
    path: KeyPath = ("workers",)
    for index, virtual_cluster in enumerate(config.virtual_clusters):
        if not isinstance(virtual_cluster.target, PoolTargetConfig):
            continue
        if virtual_cluster.nodes is not None:
            at: KeyPath = ("virtual_clusters", index, "nodes")
            allowed = f"1 where a pool has further nodes ({format_path(at)}): each worker has its two ports and no more"
            yield Finding(path, config.workers, allowed, (at,))
        for number, limit in enumerate(virtual_cluster.target.pool.limits):
            at = ("virtual_clusters", index, "target", "pool", "limits", number)
            if limit.of is LimitOf.GROUP and (limit.records or limit.bytes or limit.in_flight):
                allowed = f"1, since {format_path(at)} limits a whole group, whose members are with several workers"
                yield Finding(path, config.workers, allowed, (at,))
    yield from _of_interceptors(config, path)
    for index, router in enumerate(config.routers):
        for number, route in enumerate(router.routes):
            if isinstance(route.target, ToPoolConfig):
                at = ("routers", index, "routes", number)
                allowed = f"1, since {format_path(at)} leads to a pool, whose clients would change workers"
                yield Finding(path, config.workers, allowed, (at,))


def _of_interceptors(config: Config, path: KeyPath) -> Iterator[Finding]:
    """Refuses interceptors that may drop a producer's records: one process remembers these, and the producer's next
    connection may reach another one."""
    for index, each in enumerate(config.interceptors):
        if On.PRODUCE in each.on and _may_drop(each.type):
            at: KeyPath = ("interceptors", index, "on")
            allowed = f"1, since {format_path(at)} may drop producers' records, which one process must number"
            yield Finding(path, config.workers, allowed, (at,))


def _may_drop(type: str) -> bool:
    try:
        return class_of(type).effect is Effect.FILTER
    except UnknownInterceptorType:
        return False
