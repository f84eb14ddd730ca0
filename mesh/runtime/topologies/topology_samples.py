"""Metrics of topology descriptions at the time of a scrape, and their status as JSON, for `/status`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mesh.runtime.topologies.plugin_calls import Call
from mesh.runtime.topologies.topologies import Topologies
from mesh.telemetry.metric_definitions import (
    TOPOLOGY_CLEANUP_CYCLES,
    TOPOLOGY_CLEANUP_ELIGIBLE,
    TOPOLOGY_DELETE_ERROR,
    TOPOLOGY_DELETE_SUCCESS,
    TOPOLOGY_GET_ERROR,
    TOPOLOGY_GET_SUCCESS,
    TOPOLOGY_SET_ERROR,
    TOPOLOGY_SET_SUCCESS,
    MetricSample,
)
from mesh.upstream.store.documents import StoreError

_CALLS: Final = {
    Call.SET: (TOPOLOGY_SET_SUCCESS, TOPOLOGY_SET_ERROR),
    Call.GET: (TOPOLOGY_GET_SUCCESS, TOPOLOGY_GET_ERROR),
    Call.DELETE: (TOPOLOGY_DELETE_SUCCESS, TOPOLOGY_DELETE_ERROR),
}


def samples_of(*topologies: Topologies) -> Iterator[MetricSample]:
    """Yields the samples of topology descriptions. topologies: all of one virtual cluster."""
    if not topologies:
        return
    labels = (topologies[0].name,)
    for call, (success, error) in _CALLS.items():
        counts = [each.calls.counts[call] for each in topologies]
        yield MetricSample(success, labels, sum(each.success for each in counts))
        yield MetricSample(error, labels, sum(each.error for each in counts))
    yield MetricSample(TOPOLOGY_CLEANUP_CYCLES, labels, sum(each.cleanup_cycles for each in topologies))
    yield MetricSample(TOPOLOGY_CLEANUP_ELIGIBLE, labels, sum(each.cleanup_eligible for each in topologies))


def status_of(topologies: Topologies) -> dict[str, Any]:
    """Returns every group that has anything stored, and the reason if the store cannot be read."""
    return status_of_clusters((topologies,))


def status_of_clusters(topologies: Iterable[Topologies]) -> dict[str, Any]:
    """Returns the status behind a router: every group that has anything stored, with its cluster, and the reason if the
    store cannot be read."""
    groups: list[dict[str, Any]] = []
    plugin = problem = ""
    for each in topologies:
        plugin = each.plugin_name
        of_cluster = {} if each.cluster is None else {"cluster": each.cluster}
        try:
            for group in sorted(each.groups()):
                epochs = each.epochs(group)
                groups.append({"group": group, **of_cluster, "stored": epochs.stored, "failed": epochs.failed})
        except StoreError as error:
            problem = str(error)
    return {"plugin": plugin, "problem": problem, "groups": groups}
