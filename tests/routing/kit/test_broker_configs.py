"""A request about configurations is divided among the brokers that it names, and joined in its order."""

from __future__ import annotations

import pytest

from mesh.routing.kit.broker_configs import CONFIGS, by_broker, joined_configs
from mesh.routing.kit.translation import BROKER, BROKER_LOGGER, GROUP, TOPIC
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, read_tree, write_tree

NODES = {1, 2}
RESOURCES = (
    (BROKER, "2"),
    (TOPIC, "2"),
    (BROKER_LOGGER, "1"),
    (BROKER, "1"),
    (BROKER, "7"),
    (BROKER, ""),
    (GROUP, "1"),
)
"""Node 7 is unknown, and an empty name stands for all brokers."""
VERSIONS = {ApiKey.DESCRIBE_CONFIGS: 4, ApiKey.ALTER_CONFIGS: 2, ApiKey.INCREMENTAL_ALTER_CONFIGS: 1}


def asked(api_key: ApiKey, *resources: tuple[int, str]) -> Tree:
    """The request, with the defaults of all other fields."""
    tree = {"resources": [{"resource_type": kind, "resource_name": name, "configs": []} for kind, name in resources]}
    version = VERSIONS[api_key]
    written = write_tree(api_key, version, Direction.REQUEST, tree)
    return read_tree(api_key, version, Direction.REQUEST, memoryview(written))


def named(elements: list[Tree]) -> list[tuple[int, str]]:
    return [(each["resource_type"], each["resource_name"]) for each in elements]


def answered(api_key: ApiKey, part: Tree, throttle: int) -> Tree:
    name = "results" if api_key is ApiKey.DESCRIBE_CONFIGS else "responses"
    elements = [{**each, "error_code": 0, "configs": []} for each in part["resources"]]
    return {"throttle_time_ms": throttle, name: elements}


@pytest.mark.parametrize("api_key", sorted(CONFIGS))
def test_each_broker_gets_what_only_it_knows(api_key: ApiKey) -> None:
    request = asked(api_key, *RESOURCES)
    parts = by_broker(request, NODES)
    assert {node: named(part["resources"]) for node, part in parts.items()} == {
        2: [(BROKER, "2")],
        1: [(BROKER_LOGGER, "1"), (BROKER, "1")],
        None: [(TOPIC, "2"), (BROKER, "7"), (BROKER, ""), (GROUP, "1")],
    }
    answers = [answered(api_key, part, number) for number, part in enumerate(parts.values())]
    whole = joined_configs(api_key, VERSIONS[api_key], request, answers)
    assert named(whole["results" if api_key is ApiKey.DESCRIBE_CONFIGS else "responses"]) == list(RESOURCES)
    assert whole["throttle_time_ms"] == 2


def test_a_request_without_brokers_stays_whole() -> None:
    for resources in ((), ((TOPIC, "1"),)):
        request = asked(ApiKey.DESCRIBE_CONFIGS, *resources)
        assert by_broker(request, NODES) == {None: request}
