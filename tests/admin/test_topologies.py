"""`/topologies`: the operator's view of a streams group."""

from __future__ import annotations

from mesh.admin.topologies import answer
from mesh.runtime.topologies.topologies import Topologies
from mesh.streams.steps import push
from mesh.topology_plugins.memory import MemoryPlugin
from tests.runtime.topologies.test_topologies import GROUP, PUSH
from tests.upstream.harness import run
from tests.upstream.store.memory import MemoryStore


def serving(name: str, store: MemoryStore, cluster: str | None = None) -> Topologies:
    place = name if cluster is None else f"{name}/{cluster}"
    plugin = MemoryPlugin(None, place)
    return Topologies(name, store, plugin, plugin_name="memory", cluster=cluster, place=place)


def test_a_topology_is_told_in_three_ways() -> None:
    async def test() -> None:
        served = serving("front", MemoryStore())
        await served.carry_out("g", push(PUSH, GROUP))
        status, body = await answer([served], {"group": "g"})
        assert (status, body["status"], body["stored"], body["failed"]) == (200, "AVAILABLE", 3, -1)
        assert body["description"] == PUSH.description
        assert (body["mermaid"][:9], body["svg"][:4]) == ("flowchart", "<svg")

    run(test)


def test_what_is_not_there_is_told() -> None:
    async def test() -> None:
        store = MemoryStore()
        one, other = serving("one", store), serving("other", store)
        status, body = await answer([one, other], {"group": "g", "virtual_cluster": "other"})
        assert (status, body["status"], "svg" in body) == (200, "NOT_STORED", False)
        assert await answer([one], {}) == (400, {"problem": "group: name the group"})
        problem = {"problem": "virtual_cluster: '', not one of one, other"}
        assert await answer([one, other], {"group": "g"}) == (400, problem)
        nobody = "none: no virtual cluster has topology_descriptions"
        assert nobody in (await answer([], {"group": "g"}))[1]["problem"]
        store.away = "no broker"
        assert await answer([one], {"group": "g"}) == (503, {"problem": "no broker"})

    run(test)


def test_a_group_behind_a_router_is_of_one_cluster() -> None:
    async def test() -> None:
        store = MemoryStore()
        eu, us = (serving("front", store, cluster) for cluster in ("eu", "us"))
        status, body = await answer([eu, us], {"group": "g"})
        assert (status, body["status"]) == (200, "NOT_STORED")
        await us.carry_out("g", push(PUSH, GROUP))
        status, body = await answer([eu, us], {"group": "g"})
        assert (status, body["status"], body["cluster"]) == (200, "AVAILABLE", "us")
        await eu.carry_out("g", push(PUSH, GROUP))
        problem = {"problem": "cluster: '', not one of eu, us"}
        assert await answer([eu, us], {"group": "g"}) == (400, problem)
        status, body = await answer([eu, us], {"group": "g", "cluster": "eu"})
        assert (status, body["cluster"]) == (200, "eu")
        assert (await answer([eu, us], {"group": "g", "cluster": "apac"}))[0] == 400

    run(test)
