"""Divides a request about configurations among the brokers of one cluster."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

from mesh.routing.kit import translation
from mesh.routing.kit.merge import arrays_of
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree

CONFIGS: Final = frozenset({ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
_RESOURCES: Final = "resources"


def by_broker(request: Tree, brokers: Container[int]) -> Mapping[int | None, Tree]:
    """Returns the part of a request for each broker. None: any broker.

    A broker answers only about its own configuration and its own loggers. request: of one of `CONFIGS`, in the names of
    the cluster. brokers: the known ones. Any broker refuses a node that the cluster lacks.
    """
    kept: dict[int | None, list[Tree]] = {}
    for resource in request[_RESOURCES]:
        node = None
        if resource["resource_type"] in (translation.BROKER, translation.BROKER_LOGGER):
            node = translation.node_in(resource["resource_name"])
        kept.setdefault(node if node in brokers else None, []).append(resource)
    if not kept:
        return {None: request}
    return {node: {**request, _RESOURCES: each} for node, each in kept.items()}


def joined_configs(api_key: ApiKey, version: int, request: Tree, answers: Sequence[Tree]) -> Tree:
    """Returns the answer to a whole request, in its order. answers: to its parts; at least one."""
    throttled = max(each.get("throttle_time_ms", 0) for each in answers)
    return answers[0] | {"throttle_time_ms": throttled} | arrays_of(api_key, version, request, answers)
