"""Range leases over HTTP: requests, answers, and the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from mesh.admin.access import AccessGuard, AdminAccess
from mesh.admin.lease_bodies import CreateBody
from mesh.admin.leases import LARGEST_BODY, OPERATIONS, LeaseApi
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId
from mesh.upstream.engine import HighWatermarks, TopicsIdentified
from tests.pool.harness import EU, US, source
from tests.runtime.pool.harness import Bench

ADDRESSES = {EU: "eu:9092", US: "us:9092"}
WHO = {"virtual_cluster": "vc", "group": "shop", "holder": "spark"}


class Admin:
    """The admin address of one virtual cluster, without a socket."""

    def __init__(self, bench: Bench, token: str | None = None) -> None:
        self.bench = bench
        routes = LeaseApi(lambda: [bench.server], ADDRESSES, lambda: True).routes()
        self.app = AccessGuard(Starlette(routes=routes), AdminAccess(token=token))

    async def call(
        self, method: str, path: str, body: object = None, raw: bytes | None = None, token: str = ""
    ) -> tuple[int, Any]:
        data = raw if raw is not None else json.dumps(body).encode()
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
        sent: list[Any] = []

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in sent)
        kinds = dict(sent[0]["headers"])
        return sent[0]["status"], json.loads(content) if kinds[b"content-type"] == b"application/json" else content

    async def post(self, path: str, **body: object) -> Any:
        status, answer = await self.call("POST", path, WHO | body)
        assert status == 200, answer
        return answer


def run(test: Callable[[Admin], Awaitable[None]], rules: GroupRules | None = None, token: str | None = None) -> None:
    async def body() -> None:
        bench = Bench(rules=rules)
        await test(Admin(bench, token))
        bench.server.drain()
        await bench.server.engines.closed()
        bench.server.close_connections()

    asyncio.run(body())


async def leased(admin: Admin, end: int = 10, **body: object) -> Any:
    """A lease of a new group; its engines get their assignment while the request waits."""
    asked = asyncio.ensure_future(admin.post("/leases", topics=["orders"], wait=5.0, **body))  # noqa: TID251
    await asyncio.sleep(0)
    told(admin, end)
    return await asked


def told(admin: Admin, end: int) -> None:
    """The engines get their partitions, whose logs end there."""
    for cluster in (EU, US):
        engine = admin.bench.engine(cluster)
        engine.ends = dict.fromkeys(map(source, cluster_of(cluster)), end)
        engine.assign()
        engine.deliver(HighWatermarks({source(n): end for n in cluster_of(cluster)}))


def cluster_of(cluster: str) -> list[int]:
    return [number for number in range(4) if source(number).cluster == cluster]


def test_the_life_of_a_lease() -> None:
    async def test(admin: Admin) -> None:
        lease = await leased(admin, max_records=8)
        assert [(each["cluster"], each["partition"], each["first"], each["last"]) for each in lease["ranges"]] == [
            ("eu", 0, 0, 1),
            ("eu", 1, 0, 1),
            ("us", 0, 0, 1),
            ("us", 1, 0, 1),
        ]
        assert lease["bootstrap_servers"] == ADDRESSES
        ((_, listed),) = [await admin.call("GET", "/leases")]
        assert listed["leases"][0]["ranges"] == lease["ranges"]
        path = f"/leases/{lease['lease']}"
        longer = await admin.post(f"{path}/renew", ttl=7_200)
        assert longer["deadline"] > lease["deadline"]
        part = lease["ranges"][:1]
        assert (await admin.post(f"{path}/acknowledge", ranges=part))["done"] == part
        claimed = await admin.post(f"{path}/claim", ranges=lease["ranges"])
        assert claimed == {"done": lease["ranges"], "lost": [], "absent": []}
        assert (await admin.post(f"{path}/acknowledge"))["done"] == lease["ranges"][1:]
        assert (await admin.post(f"{path}/acknowledge", ranges=lease["ranges"]))["done"] == lease["ranges"]
        assert await admin.call("POST", f"{path}/renew", WHO) == (
            404,
            {"error": "unknown_lease", "detail": "this holder has no such lease; it may have ended"},
        )
        assert (await admin.call("GET", "/leases"))[1] == {"leases": []}

    run(test)


def test_what_is_released_can_be_leased_again() -> None:
    async def test(admin: Admin) -> None:
        first = await leased(admin)
        other = await admin.post("/leases", holder="other", topics=["orders"])
        assert other["ranges"] == []
        assert await admin.post(f"/leases/{first['lease']}/release") == {"done": [], "lost": [], "absent": []}
        other = await admin.post("/leases", holder="other", topics=["orders"])
        assert other["ranges"] == first["ranges"]
        again = await admin.post(f"/leases/{first['lease']}/claim", ranges=first["ranges"])
        assert again == {"done": [], "lost": first["ranges"], "absent": []}

    run(test)


def test_the_backlog_is_told_without_joining_the_group() -> None:
    async def test(admin: Admin) -> None:
        asked = {"virtual_cluster": "vc", "group": "shop", "topics": ["orders"]}
        nothing = {"active": False, "partitions": [], "isolation": "read_committed"}
        assert (await admin.call("POST", "/leases/backlog", asked))[1] == nothing
        assert not admin.bench.engines
        await leased(admin, max_records=20)
        _, answer = await admin.call("POST", "/leases/backlog", asked)
        assert answer["partitions"][0] == {
            "cluster": "eu",
            "topic": "orders",
            "partition": 0,
            "available": 5,
            "leased": 5,
            "lag": 10,
            "end": 10,
        }

    run(test)


def test_a_job_that_waits_for_the_backlog_joins_the_group_and_leases_up_to_there() -> None:
    async def test(admin: Admin) -> None:
        asked = {"virtual_cluster": "vc", "group": "shop", "topics": ["orders"], "wait": 5}
        looked = asyncio.ensure_future(admin.call("POST", "/leases/backlog", asked))  # noqa: TID251
        await asyncio.sleep(0)
        told(admin, 10)
        _, answer = await looked
        ends = [
            {name: each[name] for name in ("cluster", "topic", "partition", "end")} for each in answer["partitions"]
        ]
        assert answer["active"]
        assert [each["end"] for each in ends] == [10] * 4
        for cluster in (EU, US):
            admin.bench.engine(cluster).deliver(HighWatermarks({source(n): 99 for n in cluster_of(cluster)}))
        lease = await admin.post("/leases", topics=["orders"], ends=ends)
        assert [each["last"] for each in lease["ranges"]] == [9] * 4

    run(test)


def test_ends_are_asked_for_without_joining_the_group() -> None:
    async def test(admin: Admin) -> None:
        asked = {"virtual_cluster": "vc", "group": "shop", "topics": ["orders"], "ends_within": 5}
        assert not (await admin.call("POST", "/leases/backlog", asked))[1]["active"]
        assert not admin.bench.engines
        await leased(admin, max_records=20)
        for cluster in (EU, US):
            admin.bench.engine(cluster).ends = dict.fromkeys(map(source, cluster_of(cluster)), 12)
        _, answer = await admin.call("POST", "/leases/backlog", asked)
        assert [each["end"] for each in answer["partitions"]] == [12] * 4

    run(test)


def test_ranges_are_of_a_topic_by_its_id_and_are_lost_when_that_is_another_one() -> None:
    async def test(admin: Admin) -> None:
        old, new = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
        await leased(admin, max_records=1)
        for cluster in (EU, US):
            admin.bench.engine(cluster).deliver(TopicsIdentified({source(0).topic: new}))
        ranges = (await admin.post("/leases", topics=["orders"]))["ranges"]
        assert {each["topic_id"] for each in ranges} == {new}
        older = [each | {"topic_id": old} for each in ranges]
        assert (await admin.post("/leases/earlier/claim", holder="other", ranges=older))["lost"] == older
        status, answer = await admin.call(
            "POST", "/leases/x/claim", WHO | {"ranges": [ranges[0] | {"topic_id": "a b"}]}
        )
        assert (status, answer["detail"].startswith("ranges.0.topic_id: ")) == (422, True)

    run(test)


def test_a_claim_for_which_there_is_no_room_is_refused_with_the_partition() -> None:
    async def test(admin: Admin) -> None:
        await leased(admin, end=10_000, max_records=1)
        place = {"cluster": "eu", "topic": "orders", "partition": 1}
        ranges = [place | {"first": each, "last": each} for each in range(0, 2_000, 2)]
        status, answer = await admin.call("POST", "/leases/x/claim", WHO | {"ranges": ranges, "wait": 0})
        assert (status, answer["error"]) == (503, "no_room")
        assert "eu/orders-1 would be 1000 runs" in answer["detail"]
        assert [each["lease"] for each in (await admin.call("GET", "/leases"))[1]["leases"]] != ["x"]

    run(test)


@pytest.mark.parametrize(
    ("path", "change", "status", "error", "detail"),
    [
        ("/leases", {"virtual_cluster": "x"}, 404, "unknown_virtual_cluster", "no virtual cluster 'x'; known: vc"),
        ("/leases", {"topics": ["nope"]}, 404, "unknown_topic", "no topic 'nope'"),
        ("/leases", {"group": "hidden"}, 403, "refused_group", "may not be used here"),
        ("/leases", {"holder": "a b"}, 422, "invalid", "holder: "),
        ("/leases", {"max_records": 0}, 422, "invalid", "max_records: "),
        ("/leases", {"ttl": "long"}, 422, "invalid", "ttl: "),
        ("/leases", {"what": 1}, 422, "invalid", "what: "),
        ("/leases/x/renew", {}, 422, "invalid", "topics: "),
    ],
)
def test_a_request_that_says_something_wrong_is_told_what(
    path: str, change: dict[str, object], status: int, error: str, detail: str
) -> None:
    async def test(admin: Admin) -> None:
        found, answer = await admin.call("POST", path, WHO | {"topics": ["orders"]} | change)
        assert (found, answer["error"]) == (status, error)
        assert detail in answer["detail"]

    run(test, GroupRules(admitted=("shop",)))


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    async def test(admin: Admin) -> None:
        wrong = {"cluster": "eu", "topic": "orders", "partition": 0, "first": 5, "last": 4}
        status, answer = await admin.call("POST", "/leases/x/acknowledge", WHO | {"ranges": [wrong]})
        assert (status, answer["detail"]) == (422, "ranges.0: Value error, first must not be above last")

    run(test)


def test_a_body_without_end_is_refused() -> None:
    async def test(admin: Admin) -> None:
        status, answer = await admin.call("POST", "/leases", raw=b" " * (LARGEST_BODY + 1))
        assert (status, answer["error"]) == (413, "too_large")

    run(test)


def test_the_token_of_the_admin_address_is_needed() -> None:
    async def test(admin: Admin) -> None:
        assert (await admin.call("GET", "/leases"))[0] == 401
        assert (await admin.call("GET", "/openapi.json", token="wrong"))[0] == 401
        assert await admin.call("GET", "/leases", token="secret") == (200, {"leases": []})

    run(test, token="secret")


def test_a_caller_without_a_token_leases_nothing() -> None:
    async def test(admin: Admin) -> None:
        closed = LeaseApi(lambda: [admin.bench.server], ADDRESSES, lambda: True, may_change=False)
        admin.app = AccessGuard(Starlette(routes=closed.routes()), AdminAccess())
        for operation in OPERATIONS:
            status, answer = await admin.call(operation.method, operation.path.replace("{lease}", "x"), WHO)
            assert (status, answer["error"]) == (403, "no_token_set")
        assert not admin.bench.engines

    run(test)


def test_nothing_is_begun_while_the_mesh_stops() -> None:
    async def test(admin: Admin) -> None:
        admin.bench.server.drain()
        status, answer = await admin.call("POST", "/leases", WHO | {"topics": ["orders"]})
        assert (status, answer["error"]) == (503, "unavailable")
        assert GroupId("shop") not in admin.bench.server.core.pools

    run(test)


def test_nothing_is_unknown_before_the_mesh_has_started() -> None:
    async def test(admin: Admin) -> None:
        pools = [admin.bench.server]
        starting = LeaseApi(lambda: pools, ADDRESSES, lambda: False)
        admin.app = AccessGuard(Starlette(routes=starting.routes()), AdminAccess())
        status, answer = await admin.call("POST", "/leases", WHO | {"topics": ["customers"]})
        assert (status, answer["error"]) == (503, "unavailable")
        pools.clear()
        status, answer = await admin.call("POST", "/leases", WHO | {"topics": ["orders"]})
        assert (status, answer["error"]) == (503, "unavailable")

    run(test)


@settings(max_examples=10)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.lists(each), max_leaves=5))
def test_no_body_breaks_it(body: object) -> None:
    async def test(admin: Admin) -> None:
        for operation in OPERATIONS:
            if operation.method == "POST":
                path = operation.path.replace("{lease}", "x")
                assert (await admin.call("POST", path, body))[0] == 422
                assert (await admin.call("POST", path, WHO | {"topics": body, "ranges": body}))[0] in (404, 422)

    run(test)


def test_the_document_describes_every_route_and_model() -> None:
    async def test(admin: Admin) -> None:
        status, document = await admin.call("GET", "/openapi.json")
        assert (status, document["openapi"]) == (200, "3.1.0")
        operations = {(path, method) for path, each in document["paths"].items() for method in each}
        served = {
            (route.path, method.lower())
            for route in LeaseApi(list, {}, lambda: True).routes()
            for method in route.methods or ()
            if method != "HEAD" and route.path != "/openapi.json"
        }
        assert operations == served
        schemas = document["components"]["schemas"]
        assert set(schemas["CreateBody"]["properties"]) == set(CreateBody.model_fields)
        text = json.dumps(document)
        for name in [part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]]:
            assert name in schemas

    run(test)
