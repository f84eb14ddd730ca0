"""Long names in the requests of a client without rights take no memory of the mesh while the client is connected."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from mesh.wire.apis import ApiKey
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.raw import Endpoint, RawConnection
from tests.integration.relay_mesh import RelayMesh
from tests.runtime.interception.requests import framed

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
CONNECTIONS, REQUESTS, NAMES = 3, 17, 60
ALLOWED = 120 << 20
"""Bytes. The mesh kept 375 MiB of these names once."""


def resident(mesh: RelayMesh) -> int:
    return int(Path(f"/proc/{mesh.pid}/statm").read_text().split()[1]) * 4_096


def names(request: int) -> bytes:
    """A FindCoordinator for groups with long names. One character makes Python keep four bytes of each other one."""
    keys = [f"{request}-{number}-🜁" + "x" * 31_000 for number in range(NAMES)]
    return bytes(framed(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": keys})[1])


def test_long_names_are_not_kept(kafka: KafkaCluster, tmp_path: Path) -> None:
    mesh = RelayMesh(tmp_path, kafka.bootstrap_servers, listener={"authorization": {"rules": []}})
    clients = [RawConnection(Endpoint.of(mesh.bootstrap_servers)) for _ in range(CONNECTIONS)]
    try:
        before = resident(mesh)
        for number in range(REQUESTS):
            request = names(number)
            for client in clients:
                client.tell(request)
                answer = client.answer()
                assert answer is not None
                assert answer.count(pack(">h", 30)) >= NAMES, "each group is refused"
        assert resident(mesh) - before < ALLOWED
    finally:
        for client in clients:
            client.close()
        mesh.kill()
