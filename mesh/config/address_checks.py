"""Checks of addresses: that each is used once, and that clients can connect to the advertised ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final, TypeAlias

from mesh.config.finding import Finding
from mesh.config.mistakes import KeyPath, format_path
from mesh.config.model import Config, PoolTargetConfig, VirtualClusterConfig
from mesh.config.values import Address
from mesh.config.worker_places import WorkerPlace

HIGHEST_PORT: Final = 65_535
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


Listened: TypeAlias = tuple[KeyPath, Address, tuple[KeyPath, ...]]
"""The key of an address, the address, and further keys that it depends on."""


def check_addresses(config: Config) -> Iterator[Finding]:
    taken: list[Listened] = []
    if config.admin:
        taken.append((("admin", "listen"), config.admin.listen, ()))
    for index, virtual_cluster in enumerate(config.virtual_clusters):
        at: KeyPath = ("virtual_clusters", index)
        for listener in virtual_cluster.all_listeners():
            listen: KeyPath = (*at, *listener.path, "listen")
            taken.append((listen, listener.listen, ()))
            if listener.nodes is not None:
                ports, host = (*at, *listener.path, "nodes", "ports"), listener.listen.host
                taken += [(ports, Address(host, port), (listen,)) for port in listener.nodes.ports or ()]
        if virtual_cluster.has_coordinator:
            taken.append(((*at, "coordinator"), virtual_cluster.coordinator, ((*at, "listen"),)))
        yield from _advertised(virtual_cluster, at)
    for index, (path, address, others) in enumerate(taken):
        for earlier, occupied, more in taken[:index]:
            if _collide(address, occupied):
                allowed = f"an address of its own; {format_path(earlier)} listens on {occupied}"
                yield Finding(path, str(address), allowed, (earlier, *others, *more))
                break
    if config.workers > 1:
        yield from _of_workers(config, taken)


def _of_workers(config: Config, taken: list[Listened]) -> Iterator[Finding]:
    """Checks that the ports of the workers are free: each worker has its own ports for each pool."""
    path: KeyPath = ("workers",)
    for index, virtual_cluster in enumerate(config.virtual_clusters):
        if not isinstance(virtual_cluster.target, PoolTargetConfig):
            continue
        at: KeyPath = ("virtual_clusters", index)
        for number, (key, address) in itertools.product(
            range(1, config.workers + 1),
            (("listen", virtual_cluster.listen), ("coordinator", virtual_cluster.coordinator)),
        ):
            others, own = ((*at, "listen"), (*at, key)), WorkerPlace(number).own(address)
            would = f"worker {number} of {format_path(at)} would listen on {own}"
            if own.port > HIGHEST_PORT:
                yield Finding(path, config.workers, f"fewer, so that there are enough ports: {would}", others)
                break
            if (occupied := next((each for each in taken if _collide(own, each[1])), None)) is not None:
                allowed = f"addresses of their own: {would}, and {format_path(occupied[0])} is {occupied[1]}"
                yield Finding(path, config.workers, allowed, (*others, occupied[0], *occupied[2]))
                break
            taken.append(((*at, key), own, ((*at, "listen"),)))


def _advertised(virtual_cluster: VirtualClusterConfig, path: KeyPath) -> Iterator[Finding]:
    addresses: list[tuple[KeyPath, KeyPath, Address]] = []
    for listener in virtual_cluster.all_listeners():
        if listener.nodes is None or listener.nodes.hosts is None:  # with hosts, clients use the nodes' names
            key: KeyPath = ("advertise",) if listener.path else ("advertise", "listen")
            addresses.append(((*listener.path, *key), (*listener.path, "listen"), listener.advertised))
    if virtual_cluster.has_coordinator:
        addresses.append((("advertise", "coordinator"), ("coordinator",), virtual_cluster.advertised_coordinator))
    for key, listened, address in addresses:
        if address.is_wildcard:
            allowed = "an address that clients can connect to; required when listening on all interfaces"
            yield Finding((*path, *key), str(address), allowed, ((*path, "listen"), (*path, *listened)))


def _collide(left: Address, right: Address) -> bool:
    return left.port == right.port and (
        left.host == right.host or left.is_wildcard or right.is_wildcard or {left.host, right.host} <= _LOOPBACK
    )
