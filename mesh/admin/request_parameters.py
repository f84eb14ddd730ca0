"""The common part of operators' requests about a pool: the pool, partitions, offsets, and refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from mesh.pool.common.ids import GroupId
from mesh.pool.pool import Pool
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.runtime.pool.runtime import PoolRuntime

NO_TOKEN: Final = "the admin address has no token (admin.token); then records are looked at on loopback addresses only"
_PARTITION: Final = re.compile(r"(?P<cluster>[^/]+)/(?P<topic>.+)-(?P<number>\d+)")


class RefusedRequest(Exception):
    """Raised for a request that cannot be done. status: the HTTP status of the answer."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


def pool_of(servers: Sequence[PoolRuntime], asked: Mapping[str, str], key: str = "group") -> tuple[PoolRuntime, Pool]:
    """Returns the pool of the group that the request names under a key. Raises RefusedRequest."""
    group = GroupId(asked.get(key, ""))
    if not group:
        raise RefusedRequest(400, f"{key}: name the group")
    named = servers_of(servers, asked)
    server = next((each for each in named if each.admits(group)), named[0])
    pool = server.core.pools.get(group)
    if pool is None:
        raise RefusedRequest(404, f"{key}: {group!r} has no pool in this process")
    return server, pool


def servers_of(servers: Sequence[PoolRuntime], asked: Mapping[str, str]) -> Sequence[PoolRuntime]:
    """Returns the pools of the virtual cluster in the request. Raises RefusedRequest."""
    named = [each for each in servers if each.name == asked.get("virtual_cluster", each.name)]
    if len({each.name for each in named}) != 1:
        names = ", ".join(sorted({each.name for each in servers})) or "none: there is no pool"
        raise RefusedRequest(400, f"virtual_cluster: {asked.get('virtual_cluster', '')!r}, not one of {names}")
    return named


def partition_of(named: str) -> UpstreamPartition:
    """Parses the name of a partition. Raises RefusedRequest."""
    found = _PARTITION.fullmatch(named)
    if found is None:
        raise RefusedRequest(400, f"partition: {named!r}, not CLUSTER/TOPIC-NUMBER as in eu/orders-3")
    return UpstreamPartition(ClusterName(found["cluster"]), TopicName(found["topic"]), int(found["number"]))


def offset_of(key: str, given: str | None) -> int:
    """Parses an offset. key: its key in the request. Raises RefusedRequest."""
    if given is None or not re.fullmatch(r"\d{1,19}", given) or int(given) >= 1 << 63:
        raise RefusedRequest(400, f"{key}: {given!r}, not an offset of the upstream log")
    return int(given)
