from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from tests.pool.apis.harness import Client, Mesh, joined, versions
from tests.pool.apis.test_k68_consumer_group_heartbeat import consumer
from tests.pool.harness import GROUP


def listed(mesh: Mesh, version: int = 5, **filters: tuple[str, ...]) -> Any:
    return Client(mesh, "tool").ask(ApiKey.LIST_GROUPS, version, **filters).groups


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_the_pools(version: int) -> None:
    mesh = Mesh()
    assert listed(mesh, version) == ()
    joined(mesh)
    joined(mesh, group_id="another")
    groups = listed(mesh, version)
    assert [(group.group_id, group.protocol_type) for group in groups] == [("another", "consumer"), (GROUP, "consumer")]
    if version >= 4:
        assert {group.group_state for group in groups} == {"Stable"}
    if version >= 5:
        assert {group.group_type for group in groups} == {"classic"}


def test_filters() -> None:
    mesh = Mesh()
    joined(mesh)
    consumer(mesh, group_id="another")

    def names(**filters: tuple[str, ...]) -> list[str]:
        return [group.group_id for group in listed(mesh, 5, **filters)]

    assert names(states_filter=("stable",)) == ["another", GROUP]
    assert names(states_filter=("Empty",)) == []
    assert names(types_filter=("Consumer",)) == ["another"]
    assert names(types_filter=("classic", "consumer")) == ["another", GROUP]
