"""A change of a group's configuration goes to every cluster, because the group may have members in each."""

from __future__ import annotations

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.runtime.entity_router.groups.clusters import GROUP
from tests.runtime.entity_router.harness import LeafCluster, union
from tests.runtime.relay.loops import anyhow

ALTER = ApiKey.INCREMENTAL_ALTER_CONFIGS
GROUPS, TOPICS = 32, 2
REQUEST: Tree = {
    "resources": [
        {
            "resource_type": GROUPS,
            "resource_name": GROUP,
            "configs": [{"name": "n", "config_operation": 0, "value": "v"}],
        },
        {"resource_type": TOPICS, "resource_name": "orders", "configs": []},
    ],
    "validate_only": False,
}


def names(cluster: LeafCluster) -> set[str]:
    return {each["resource_name"] for key, request in cluster.seen if key is ALTER for each in request["resources"]}


def answers(cluster: LeafCluster, code: int = 0) -> None:
    def answer(api_key: ApiKey, version: int, request: Tree) -> Tree:
        kept = ("resource_type", "resource_name")
        return {"responses": [{"error_code": code} | {k: each[k] for k in kept} for each in request["resources"]]}

    cluster.answers = answer


@anyhow
async def test_a_group_is_configured_everywhere_and_a_topic_at_its_owner() -> None:
    async with union() as made:
        for cluster in (made.eu, made.us):
            answers(cluster)
        client = await made.client()
        answer = await client.asked(ALTER, 1, REQUEST)
        assert [(each["resource_name"], each["error_code"]) for each in answer["responses"]] == [
            (GROUP, 0),
            ("orders", 0),
        ]
        assert (names(made.eu), names(made.us)) == ({GROUP, "orders"}, {GROUP})


@anyhow
async def test_if_a_cluster_does_not_the_client_is_told() -> None:
    async with union() as made:
        answers(made.eu)
        answers(made.us, 40)
        client = await made.client()
        for code in (40, 7):
            answer = await client.asked(ALTER, 1, REQUEST)
            assert {each["error_code"] for each in answer["responses"]} == {code}
            await made.us.stop()
        assert names(made.eu) == set()
