"""Refusals without an answer that names a resource are logged and counted, too: of a Produce without acks, and of a
pattern."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.wire.apis import ApiKey
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.integration.relay_mesh import RelayMesh
from tests.interceptors.fakes import batch
from tests.runtime.interception.requests import framed

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
]


def test_each_refusal_is_counted(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("refused-here", 1)
    group = {"principals": ["User:ANONYMOUS"], "groups": ["g"]}
    mesh = RelayMesh(tmp_path, kafka.bootstrap_servers, listener={"authorization": {"rules": [group]}})
    client = RawConnection(Endpoint.of(mesh.bootstrap_servers))
    try:
        data = [{"name": "refused-here", "partition_data": [{"index": 0, "records": batch(b"x")}]}]
        produce = {"transactional_id": None, "acks": 0, "timeout_ms": 1_000, "topic_data": data}
        client.tell(bytes(framed(ApiKey.PRODUCE, 7, produce)[1]))
        assert client.answer() is None
        heartbeat = {"group_id": "g", "member_id": "m", "subscribed_topic_regex": "refused.*"}
        client.tell(bytes(framed(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat)[1]))
        assert client.answer() is not None

        def refusals() -> set[tuple[str, str, float]] | None:
            found = mesh.samples("kafka_mesh_authorization_refusals_total")
            told = {(labels["api"], labels["operation"], value) for labels, value in found if value}
            return told if len(told) == 2 else None

        counted = eventually("both are counted", refusals)
        assert counted == {("PRODUCE", "WRITE", 1.0), ("CONSUMER_GROUP_HEARTBEAT", "DESCRIBE", 1.0)}
        denied = [
            (each["resource"], each["client_id"]) for each in mesh.log_entries() if each["event"] == "request denied"
        ]
        assert denied == [("refused-here", "client"), ("*", "client")]
    finally:
        client.close()
        mesh.kill()
