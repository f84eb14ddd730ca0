"""Values from the mesh's own output: /status and /metrics of a real server."""

from __future__ import annotations

import asyncio
import json

from mesh.admin.status import status_of
from mesh.demo.processes.snapshot import TopicSnapshot, snapshot_of
from mesh.telemetry.metrics import Metrics
from tests.pool.harness import EU, GROUP, ORDERS, US
from tests.runtime.pool.harness import Bench

METRICS = """\
# TYPE kafka_mesh_records_in counter
kafka_mesh_records_in_total{cluster="us",topic="orders"} 7.0
kafka_mesh_records_in_total{cluster="eu",topic="orders"} 40.0
# TYPE kafka_mesh_records_out counter
kafka_mesh_records_out_total{virtual_cluster="demo",group="demo",topic="orders"} 30.0
kafka_mesh_records_out_total{virtual_cluster="demo",group="mine",topic="orders"} 5.0
# TYPE kafka_mesh_backlog_records gauge
kafka_mesh_backlog_records{virtual_cluster="demo",group="demo",topic="orders"} 3.0
"""


def test_topics() -> None:
    found = snapshot_of(5.0, {"virtual_clusters": []}, METRICS)
    assert found.topics == (TopicSnapshot("orders", {"eu": 40, "us": 7}, 35, 3),)
    assert (found.at, found.members) == (5.0, ())


def test_what_a_server_says_is_understood() -> None:
    async def run() -> None:
        bench = Bench()
        peer = await bench.member("fast-1")
        peer.fetch(peer.positions())
        for name in (EU, US):
            bench.engine(name).assign()
        bench.engine(EU).produce(0, first=0, count=5)
        status = json.loads(json.dumps(status_of([bench.server])))
        found = snapshot_of(1.0, status, b"".join(bench.server.listener.metrics.exposition()).decode())
        (member,) = found.members
        assert (member.id, member.client_id, member.group) == (peer.member_id, "fast-1", GROUP)
        assert (member.delivered, member.held, member.redelivered, member.committed) == (5, 5, 0, None)
        (topic,) = found.topics
        assert (topic.name, topic.received, topic.delivered) == (ORDERS, {EU: 5}, 5)

    asyncio.run(run())


def test_nothing_yet() -> None:
    assert snapshot_of(0.0, {"virtual_clusters": []}, b"".join(Metrics().exposition()).decode()).topics == ()
