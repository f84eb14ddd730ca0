"""A broker that takes only clients with a certificate of an authority."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import pytest

from mesh.upstream.links.connection_settings import connection_settings_of
from mesh.upstream.links.handshake import Unreachable, connect
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import free_port
from tests.integration.security.certificates import Authority, Pair
from tests.integration.security.secured import Login


@dataclass(frozen=True, slots=True)
class Guarded:
    """A broker whose listener SSL takes only clients with a certificate of the authority."""

    cluster: KafkaCluster
    port: int
    authority: Authority

    def properties(self, pair: Pair) -> dict[str, str]:
        return {"security.protocol": "ssl", **Login(None, self.authority.certificate, certificate=pair).librdkafka()}

    def upstream(self, pair: Pair) -> dict[str, object]:
        """Keys of the cluster in a mesh's configuration."""
        return {"bootstrap_servers": f"localhost:{self.port}", "properties": self.properties(pair)}

    def takes(self, pair: Pair) -> bool:
        """Whether a new connection with this certificate is served."""
        settings = connection_settings_of(self.properties(pair))
        try:
            anyio.run(partial(_connect, self.port, settings))
        except Unreachable:
            return False
        return True


async def _connect(port: int, settings: object) -> None:
    (await connect("localhost", port, settings)).fail("done")  # type: ignore[arg-type]


@contextmanager
def guarded_broker(folder: Path) -> Iterator[Guarded]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    authority, port = Authority(folder / "certificates"), free_port()
    pair, store = authority.issue("broker"), folder / "broker.pem"
    store.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
    more = {
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},SSL://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},SSL://localhost:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    cluster = KafkaCluster("eu", kafka_jars(), folder / "broker", more)
    try:
        yield Guarded(cluster, port, authority)
    finally:
        cluster.kill()
