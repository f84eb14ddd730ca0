"""Topology descriptions in numbers, at the time of a scrape, and as JSON, for `/status`."""

from __future__ import annotations

from collections.abc import Iterator
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
    Sample,
)
from mesh.upstream.store.documents import StoreError

_CALLS: Final = {
    Call.SET: (TOPOLOGY_SET_SUCCESS, TOPOLOGY_SET_ERROR),
    Call.GET: (TOPOLOGY_GET_SUCCESS, TOPOLOGY_GET_ERROR),
    Call.DELETE: (TOPOLOGY_DELETE_SUCCESS, TOPOLOGY_DELETE_ERROR),
}


def samples_of(topologies: Topologies) -> Iterator[Sample]:
    labels = (topologies.name,)
    for call, (success, error) in _CALLS.items():
        count = topologies.calls.counts[call]
        yield Sample(success, labels, count.success)
        yield Sample(error, labels, count.error)
    yield Sample(TOPOLOGY_CLEANUP_CYCLES, labels, topologies.cleanup_cycles)
    yield Sample(TOPOLOGY_CLEANUP_ELIGIBLE, labels, topologies.cleanup_eligible)


def status_of(topologies: Topologies) -> dict[str, Any]:
    """Every group of which anything is stored; and why the store cannot be read, if it cannot."""
    groups: list[dict[str, Any]] = []
    problem = ""
    try:
        for group in sorted(topologies.groups()):
            epochs = topologies.epochs(group)
            groups.append({"group": group, "stored": epochs.stored, "failed": epochs.failed})
    except StoreError as error:
        problem = str(error)
    return {"plugin": topologies.plugin_name, "problem": problem, "groups": groups}
