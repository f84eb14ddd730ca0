"""The counts of each cluster behind a router."""

from __future__ import annotations

from mesh.routing.node_ids import NODE_BITS
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.runtime.entity_router.harness import UnionWorld, topic, union
from tests.runtime.entity_router.test_requests import coordinators, offsets
from tests.runtime.relay.loops import anyhow

US = 1 << NODE_BITS
KEYS: Tree = {"key_type": 0, "coordinator_keys": ["us-one", "one"]}


def counted(made: UnionWorld, name: str) -> dict[tuple[str, ...], float]:
    """Samples of a metric, by all labels but the virtual cluster."""
    found = {}
    for family in made.metrics.families():
        for sample in family.samples if family is not None else ():
            if sample.name == name:
                found[tuple(sample.labels[label] for label in sample.labels if label != "virtual_cluster")] = (
                    sample.value
                )
    return found


@anyhow
async def test_requests_that_pass_and_parts_of_divided_ones_are_counted_by_route() -> None:
    async with union() as made:
        for cluster in (made.eu, made.us):
            cluster.answers = lambda api_key, version, request, cluster=cluster: (  # type: ignore[misc]
                coordinators(cluster, request)
                if api_key is ApiKey.FIND_COORDINATOR
                else {"topics": [{"name": "us.orders", "partitions": [{"partition_index": 0, "error_code": 6}]}]}
            )
        client = await made.client(US)
        await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("us.orders"))
        await client.asked(ApiKey.FIND_COORDINATOR, 4, KEYS)
        passed, divided = ("us", "LIST_OFFSETS"), [("eu", "FIND_COORDINATOR"), ("us", "FIND_COORDINATOR")]
        assert counted(made, "kafka_mesh_route_requests_total") == dict.fromkeys([passed, *divided], 1)
        assert counted(made, "kafka_mesh_route_errors_total") == {(*passed, "NOT_LEADER_OR_FOLLOWER"): 1}
        assert counted(made, "kafka_mesh_route_request_seconds_total").keys() == {passed, *divided}
        assert counted(made, "kafka_mesh_route_unanswered_total") == {}


@anyhow
async def test_what_a_route_does_not_answer_is_counted_with_its_reason() -> None:
    async with union() as made:
        made.eu.topics = [topic("orders")]
        made.eu.answers = lambda api_key, version, request: coordinators(made.eu, request)
        await made.us.stop()
        client = await made.client()
        await client.asked(ApiKey.FIND_COORDINATOR, 4, KEYS)
        await client.asked(ApiKey.METADATA, 9, {"topics": None})
        unanswered = counted(made, "kafka_mesh_route_unanswered_total")
        assert unanswered == {("us", api, "unreachable"): 1 for api in ("FIND_COORDINATOR", "METADATA")}
