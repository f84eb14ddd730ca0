"""The end of all targets of a router's routes: clients of unions wait for their answers, members of pools commit."""

from __future__ import annotations

import asyncio

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.runtime.connection_router.harness import ALL_EU, choice
from tests.runtime.connection_router.test_connection import first
from tests.runtime.relay.loops import anyhow, until

GRACE = 1_000.0


@anyhow
async def test_a_stop() -> None:
    async with choice() as made:
        waiting = asyncio.Event()

        def never(api_key: ApiKey, version: int, request: Tree) -> None:
            waiting.set()

        made.eu.answers = never
        undecided, idle, busy, member = [await made.client(node) for node in (None, None, ALL_EU, None)]
        await first(idle, b"app")
        await first(member, b"batch-1")
        heartbeat = {"group_id": "one", "generation_id": 1, "member_id": "m", "group_instance_id": None}
        await first(busy, b"app")
        busy.ask_tree(ApiKey.HEARTBEAT, 4, heartbeat)
        await waiting.wait()
        made.runtime.begin_stop(GRACE)
        assert await undecided.rest() == await idle.rest() == b""
        assert await first(member, b"batch-1"), "it may have something to commit"
        late = await made.client()
        late.send(b"")
        assert await late.rest() == b""
        assert len(made.listener.connections) == 2
        busy.abort()
        await made.runtime.drained()
        made.runtime.drain()
        made.runtime.close_connections()
        assert await member.rest() == b""
        await until(lambda: not made.listener.connections)
