"""/drain: the choice of the pool, and the answers."""

from __future__ import annotations

import asyncio

from mesh.admin.drain import answer
from mesh.pool.common.group_rules import GroupRules
from tests.fake_time import in_fake_time
from tests.pool.harness import GROUP
from tests.runtime.pool.harness import Bench

NOT_UNDERSTOOD = {
    "group: name the group": {},
    "virtual_cluster: 'other', not one of vc": {"group": "shop", "virtual_cluster": "other"},
    "grace: 'soon', not seconds from 0 to 3600": {"group": "shop", "grace": "soon"},
    "grace: 'nan', not seconds from 0 to 3600": {"group": "shop", "grace": "nan"},
    "grace: '-1', not seconds from 0 to 3600": {"group": "shop", "grace": "-1"},
}


@in_fake_time
async def test_what_is_not_understood_changes_nothing() -> None:
    bench = Bench()
    for problem, asked in NOT_UNDERSTOOD.items():
        assert answer([bench.server], 6.0, "POST", asked) == (400, {"problem": problem})
    assert not bench.server.core._pools.drained


@in_fake_time
async def test_a_pool_is_drained_and_served_again() -> None:
    bench = Bench(leave_at_once=False)
    member = await bench.member()
    member.fetch(member.positions())
    code, found = answer([bench.server], 6.0, "POST", {"group": GROUP})
    assert (code, found["state"], found["members"], found["held"]) == (200, "drained", 1, 0)
    assert found["leaving"]
    for engine in bench.engines:
        engine.leaving.set()
    await bench.server.engines.closed()
    assert not answer([bench.server], 6.0, "GET", {"group": GROUP})[1]["leaving"]
    before = len(bench.engines)
    assert answer([bench.server], 6.0, "DELETE", {"group": GROUP})[1]["state"] == "serving"
    assert len(bench.engines) == 2 * before, "it has joined upstream again"


@in_fake_time
async def test_a_stop_waits_for_commits() -> None:
    bench = Bench()
    member = await bench.member()
    positions = member.positions()
    fetched = member.fetch(positions)
    bench.engine().assign()
    bench.engine().produce_next(0, 10)
    assert member.answer(fetched) is not None
    bench.server.begin_stop(60.0)
    async with asyncio.timeout(2.0), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(bench.server.drained())
        await asyncio.sleep(1.0)
        assert not waiting.done()
        member.commit({0: positions[0] + 10})


@in_fake_time
async def test_a_stop_does_not_wait_longer_than_was_said() -> None:
    bench = Bench()
    member = await bench.member()
    member.fetch(member.positions())
    bench.engine().assign()
    bench.engine().produce_next(0, 10)
    bench.server.begin_stop(6.0)
    begun = asyncio.get_running_loop().time()
    await bench.server.drained()
    assert 6.0 <= asyncio.get_running_loop().time() - begun < 6.5


@in_fake_time
async def test_of_pools_at_one_address_that_which_admits_the_group_is_drained() -> None:
    one, other = (Bench(rules=GroupRules(admitted=(pattern,), group_less=None)) for pattern in ("billing*", "shop*"))
    servers = [one.server, other.server]
    code, found = answer(servers, 6.0, "POST", {"group": "shop-1", "virtual_cluster": "vc"})
    assert (code, found["state"]) == (200, "drained")
    assert [bool(each.core._pools.drained) for each in servers] == [False, True]
    assert answer(servers, 6.0, "GET", {"group": "shop-1"})[1]["state"] == "drained"
