"""Refusals in the log: all are counted, and written at a bounded rate."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from structlog.testing import capture_logs

from mesh.listener.security import ListenerSecurity
from mesh.security.principals import ANONYMOUS
from mesh.security.rules import Operation, PatternType, ResourceType, Rule, Rules
from mesh.telemetry.log_rate import BURST, PER_SECOND
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.fake_time import in_fake_time
from tests.runtime.pool.harness import Bench, Peer

EVENT = "request denied"


def bench() -> Bench:
    """All clients may read the topics that begin with `public`, and no others."""
    bench = Bench()
    rule = Rule(
        principals=frozenset({ANONYMOUS}),
        operations=frozenset({Operation.READ}),
        resource_type=ResourceType.TOPIC,
        names=("public",),
        pattern_type=PatternType.PREFIXED,
    )
    bench.server.listener.security = ListenerSecurity(rules=Rules((rule,)))
    return bench


def ask(peer: Peer, *names: str) -> Any:
    return peer.ask(ApiKey.METADATA, 1, topics=tuple({"name": name} for name in names))


@in_fake_time
async def test_each_refusal_says_who_asked_for_what() -> None:
    world = bench()
    peer = world.peer("billing")
    with capture_logs() as logs:
        answer = ask(peer, "public.a", "secret")
    assert {topic.name: topic.error_code for topic in answer.topics}["secret"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (entry,) = entries(logs)
    wanted = {
        "virtual_cluster": "vc",
        "client_host": "10.0.0.1",
        "client_id": "billing",
        "principal": "User:ANONYMOUS",
        "api": "METADATA",
        "operation": "DESCRIBE",
        "resource_type": "TOPIC",
        "resource": "secret",
        "left_out": 0,
    }
    assert {key: entry[key] for key in wanted} == wanted
    assert world.metric("kafka_mesh_authorization_refusals_total") == {("METADATA", "DESCRIBE", "TOPIC"): 1}


@in_fake_time
async def test_a_flood_of_refusals_fills_no_disk_and_is_counted_whole() -> None:
    world = bench()
    peer = world.peer()
    with capture_logs() as logs:
        for _ in range(40):
            ask(peer, *(f"secret-{number}" for number in range(100)))
        written = len(entries(logs))
        assert BURST <= written <= BURST + 5 * PER_SECOND  # time passed while answers rested
        await asyncio.sleep(20.0)
        ask(peer, "secret")
    found = entries(logs)
    assert sum(entry["left_out"] for entry in found) + len(found) == 4_001
    assert found[-1]["left_out"] > 0
    assert world.metric("kafka_mesh_authorization_refusals_total") == {("METADATA", "DESCRIBE", "TOPIC"): 4_001}


@in_fake_time
async def test_what_a_client_calls_itself_and_asks_for_is_written_to_a_bounded_length() -> None:
    world = bench()
    with capture_logs() as logs:
        ask(world.peer("x" * 5_000), "secret" * 1_000)
    (entry,) = entries(logs)
    assert len(entry["client_id"]) <= 200
    assert len(entry["resource"]) <= 250


def entries(logs: list[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    return [entry for entry in logs if entry["event"] == EVENT]
