from __future__ import annotations

from typing import Any

import pytest

from mesh.pool.common.ids import GroupId
from mesh.wire.apis import ApiKey
from tests.pool.apis.harness import ENDPOINT, Client, Mesh, joined, versions
from tests.pool.apis.sharing import share_member
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


def test_share_groups_that_have_no_pool_any_more() -> None:
    mesh = Mesh()
    mesh.kept.seen = {GroupId("gone"), GroupId("")}
    share_member(mesh)
    mesh.upstreams[GROUP].stored = {}
    found = [(each.group_id, each.group_type, each.group_state) for each in listed(mesh, types_filter=("share",))]
    assert found == [("gone", "share", "Empty"), (GROUP, "share", "Stable")]
    assert GROUP in mesh.kept.seen, "its first heartbeat said it"
    (described,) = Client(mesh, "tool").ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=("gone",)).groups
    assert (described.error_code, described.group_state, described.members) == (0, "Empty", ())


def test_only_the_node_of_the_coordinator_lists_groups() -> None:
    """A program that asks each node, as Kafka's own tools and exporters do, gets each group once."""
    mesh = Mesh()
    joined(mesh)
    nodes = ENDPOINT.nodes
    found = {
        node: [each.group_id for each in Client(mesh, "tool", node=node).ask(ApiKey.LIST_GROUPS, 5).groups]
        for node in (0, nodes.broker, nodes.coordinator, nodes.coordinator + 1)
    }
    assert {node: groups for node, groups in found.items() if groups} == {nodes.coordinator: [GROUP]}
