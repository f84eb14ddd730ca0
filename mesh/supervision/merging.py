"""Merges the responses of several workers: `/status`, `/readyz`, `/metrics`, `/replays` and `/drain` of all of them.

`Answers` are the responses by the number of the worker; there is at least one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

Body: TypeAlias = Mapping[str, Any]
Answers: TypeAlias = Mapping[int, Body]

LABEL: Final = "worker"
_STANDINGS: Final = ("active", "unopened", "suspended", "absent")
"""The standings of a partition. If workers report different ones, the first of these counts: it is that of the worker
that owns the partition."""
_DRAIN_STATES: Final = ("serving", "draining", "drained")
_REPLAY_SUMS: Final = ("offsets", "left", "delivered_and_not_acknowledged")
_SUMS: Final = ("legs", "requests", "bytes_in", "bytes_out", "connections")


def merged_status(answers: Answers) -> dict[str, Any]:
    """Merges `/status`. Members, connections and nodes' traffic are those of all workers; a partition is as its owner
    reports it."""
    clusters: dict[str, list[tuple[int, Body]]] = {}
    for number, body in answers.items():
        for cluster in body["virtual_clusters"]:
            clusters.setdefault(cluster["name"], []).append((number, cluster))
    first = next(iter(answers.values()))
    return {
        "virtual_clusters": [_virtual_cluster(each) for each in clusters.values()],
        "configuration": first["configuration"],
    }


def merged_readiness(answers: Answers, missing: Iterable[int]) -> dict[str, Any]:
    """Merges `/readyz`. missing: the workers that do not answer."""
    problems = [f"worker {number}: {text}" for number, body in answers.items() for text in body["problems"]]
    problems += [f"worker {number}: it does not answer" for number in missing]
    degraded = [{**each, LABEL: number} for number, body in answers.items() for each in body["degraded"]]
    return {"ready": not problems, "problems": problems, "degraded": degraded}


def merged_drain(answers: Answers) -> dict[str, Any]:
    """Merges `/drain`. The state of the pool is that of the slowest worker."""
    bodies = list(answers.values())
    return {
        **bodies[0],
        "state": min((each["state"] for each in bodies), key=_DRAIN_STATES.index),
        "held": sum(each["held"] for each in bodies),
        "members": sum(each["members"] for each in bodies),
        "leaving": any(each["leaving"] for each in bodies),
    }


def merged_leases(answers: Answers) -> dict[str, Any]:
    """Merges `GET /leases`."""
    return {"leases": [{**each, LABEL: number} for number, body in answers.items() for each in body["leases"]]}


def merged_peers(answers: Answers) -> dict[str, Any]:
    """Merges `/peers`."""
    return {"instances": [each for body in answers.values() for each in body["instances"]]}


def merged_replay(bodies: Sequence[Body]) -> dict[str, Any]:
    """Merges one replay over the partitions of several workers. Partitions that no worker has are listed as
    elsewhere."""
    merged = {**bodies[0], **{name: sum(each[name] for each in bodies) for name in _REPLAY_SUMS}}
    merged["state"] = "running" if any(each["state"] == "running" for each in bodies) else bodies[0]["state"]
    partitions = (part for each in bodies for part in each["partitions"])
    merged["partitions"] = sorted(partitions, key=lambda part: str(part["partition"]))
    if "elsewhere" in merged:
        here = {part["partition"] for part in merged["partitions"]}
        nowhere = set.intersection(*(set(each["elsewhere"]) for each in bodies))
        merged["elsewhere"] = sorted(nowhere - here)
    return merged


def merged_replays(replays: Iterable[Body]) -> list[dict[str, Any]]:
    """Merges replays that have the same name in the same group."""
    found: dict[tuple[str, str, str], list[Body]] = {}
    for each in replays:
        found.setdefault((each.get("virtual_cluster", ""), each.get("group", ""), each["replay"]), []).append(each)
    return [merged_replay(bodies) for bodies in found.values()]


def longest_held(answers: Answers) -> Body:
    """Merges `GET /records`: returns the record that its member has held for longest."""

    def held(body: Body) -> float:
        return max((each.get("held_seconds") or 0.0 for each in body["places"]), default=0.0)

    return max(answers.values(), key=held)


class Families:
    """Metric families, in the form in which `generate_latest` takes a registry."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families


def merged_metrics(expositions: Mapping[int, str], more: Iterable[Metric] = ()) -> bytes:
    """Merges `/metrics`: every sample of every worker, with a label for the worker. more: metric families of the
    supervisor."""
    families: dict[str, Metric] = {}
    for number, text in expositions.items():
        for family in text_string_to_metric_families(text):
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                known.add_sample(sample.name, {**sample.labels, LABEL: str(number)}, sample.value)
    return generate_latest(Families([*more, *families.values()]))


def _virtual_cluster(of_workers: Sequence[tuple[int, Body]]) -> dict[str, Any]:
    bodies = [body for _, body in of_workers]
    merged = {**bodies[0], "connections": sum(each["connections"] for each in bodies)}
    if "pools" in merged:
        pools: dict[str, list[tuple[int, Body]]] = {}
        for number, body in of_workers:
            for pool in body["pools"]:
                pools.setdefault(pool["group"], []).append((number, pool))
        merged["pools"] = [_pool(pools[group]) for group in sorted(pools)]
    if "relay" in merged:
        relays = [each["relay"] for each in bodies]
        merged["relay"] = {**relays[0], "nodes": _nodes(each["nodes"] for each in relays)}
    if "router" in merged:
        merged["router"] = _router([each["router"] for each in bodies])
    return merged


def _pool(of_workers: Sequence[tuple[int, Body]]) -> dict[str, Any]:
    partitions: dict[tuple[str, int], dict[str, Any]] = {}
    for number, pool in of_workers:
        for partition in pool["partitions"]:
            place = partition["topic"], partition["partition"]
            if place not in partitions or _is_nearer(partition, partitions[place]):
                partitions[place] = {**partition, LABEL: number if partition["standing"] != "absent" else None}
    pools = [pool for _, pool in of_workers]
    return {
        "group": pools[0]["group"],
        "state": "Stable" if any(each["state"] == "Stable" for each in pools) else pools[0]["state"],
        "member_count": sum(each["member_count"] for each in pools),
        "lag": sum(each["lag"] or 0 for each in partitions.values()),
        "members": [{**each, LABEL: number} for number, pool in of_workers for each in pool["members"]],
        "partitions": [partitions[place] for place in sorted(partitions)],
        "replays": merged_replays(each for pool in pools for each in pool["replays"]),
    }


def _is_nearer(partition: Body, known: Body) -> bool:
    return _STANDINGS.index(partition["standing"]) < _STANDINGS.index(known["standing"])


def _router(routers: Sequence[Body]) -> dict[str, Any]:
    merged = dict(routers[0])
    if "leaves" in merged:
        leaves: dict[str, list[Body]] = {}
        for router in routers:
            for leaf in router["leaves"]:
                leaves.setdefault(str(leaf["path"]), []).append(leaf)
        merged["leaves"] = [{**each[0], "nodes": _nodes(leaf["nodes"] for leaf in each)} for each in leaves.values()]
    if "routes" in merged:
        merged["routes"] = list(_summed("route", (router["routes"] for router in routers)))
    return merged


def _nodes(of_workers: Iterable[Sequence[Body]]) -> list[dict[str, Any]]:
    return list(_summed("node", of_workers))


def _summed(key: str, of_workers: Iterable[Sequence[Body]]) -> Iterator[dict[str, Any]]:
    """Yields items merged by the value of `key`. Counts are added up; the problem of any of them is the merged
    problem."""
    found: dict[Any, list[Body]] = {}
    for bodies in of_workers:
        for body in bodies:
            found.setdefault(body[key], []).append(body)
    for same in found.values():
        merged = {**same[0], **{name: sum(each[name] for each in same) for name in _SUMS if name in same[0]}}
        if "problem" in merged:
            merged["problem"] = next((each["problem"] for each in same if each["problem"]), same[0]["problem"])
        yield merged
