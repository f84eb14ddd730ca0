"""`/moves`: allowed requests, and answers."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette

from mesh.admin.moves import MoveApi
from tests.routing.moves.test_copying import batch
from tests.runtime.entity_router.moves.world import MoveWorld, moving
from tests.runtime.relay.loops import anyhow, until


class Asking:
    """A client over HTTP."""

    def __init__(self, made: MoveWorld, *, may_change: bool = True) -> None:
        self._app = Starlette(routes=MoveApi(lambda: [made.moves], lambda: may_change).routes())

    async def __call__(self, method: str, **asked: str) -> tuple[int, dict[str, Any]]:
        """The status and the body."""
        scope = {"type": "http", "method": method, "path": "/moves", "headers": [], "client": ("127.0.0.1", 9)}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app({**scope, "query_string": urlencode(asked).encode()}, receive, send)
        return sent[0]["status"], json.loads(b"".join(each["body"] for each in sent[1:]))


async def ready(made: MoveWorld) -> None:
    made.eu.create("orders")
    made.eu.append("orders", batch(0))
    made.eu.offsets = {("billing", "orders"): 1}
    await until(lambda: made.gate.is_known)


@anyhow
async def test_a_topic_is_moved_and_back() -> None:
    async with moving() as made:
        await ready(made)
        asking = Asking(made)
        planned = {"virtual_cluster": "all", "topic": "orders", "from": "eu", "to": "us", "partitions": 1}
        planned |= {"records": 2, "filled": 0, "groups": ["billing"]}
        assert await asking("POST", topic="orders", to="us", dry_run="true") == (200, planned | {"dry_run": True})
        assert await asking("GET") == (200, {"moves": []})
        assert await asking("POST", topic="orders", to="us") == (200, planned | {"dry_run": False})
        await until(lambda: made.moves.all[0].source.path == "us")
        status, body = await asking("GET")
        (shown,) = body["moves"]
        assert (status, shown["at"], shown["other"], shown["state"], shown["left"]) == (200, "us", "eu", "moved", None)
        assert made.union.runtime.status()["router"]["moves"] == [
            {key: value for key, value in shown.items() if key != "virtual_cluster"}
        ]
        assert (await asking("POST", topic="orders", to="us"))[0] == 409
        assert (await asking("POST", topic="orders", back="true"))[1]["to"] == "eu"
        await until(lambda: made.moves.all[0].source.path == "eu")
        status, body = await asking("DELETE", topic="orders")
        assert (status, body) == (409, {"problem": "topic: it is not being moved"})


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"topic": "orders"}, 400, "to: name the route"),
        ({"to": "us"}, 400, "topic: name it"),
        ({"topic": "orders", "to": "us", "rate": "3"}, 400, "rate: not one of"),
        ({"topic": "orders", "to": "us", "dry_run": "yes"}, 400, "dry_run: 'yes', not true or false"),
        ({"topic": "orders", "to": "us", "back": "true"}, 400, "to: 'us', not with back"),
        ({"topic": "orders", "to": "us", "replication_factor": "0"}, 400, "replication_factor: '0', not a number"),
        ({"topic": "orders", "to": "us", "virtual_cluster": "x"}, 400, "virtual_cluster: 'x', not one of all"),
        ({"topic": "orders", "back": "true"}, 409, "orders was not moved"),
        ({"topic": "nothing", "to": "us"}, 409, "topic: unknown_topic: "),
        (
            {"topic": "orders", "to": "asia"},
            409,
            "unknown_route: asia is none of the routes to clusters: eu, us",
        ),
    ],
)
@anyhow
async def test_what_is_wrong_is_named(asked: dict[str, str], status: int, said: str) -> None:
    async with moving() as made:
        await ready(made)
        found, body = await Asking(made)("POST", **asked)
        assert found == status
        assert said in body["problem"]


@anyhow
async def test_it_is_for_operators() -> None:
    async with moving() as made:
        assert (await Asking(made, may_change=False)("GET"))[0] == 403


@anyhow
async def test_a_store_that_is_away_is_told() -> None:
    async with moving() as made:
        await ready(made)
        made.store.is_away = True
        status, body = await Asking(made)("POST", topic="orders", to="us")
        assert (status, body) == (503, {"problem": "away"})
        assert not made.moves.all
