"""The configuration of the demo's mesh, and how its metrics are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from mesh.config import NamedTopic, load
from mesh.demo.processes.endpoint import MeshEndpoint, Readings
from tests.config.files import pool_of

METRICS = """\
# TYPE kafka_mesh_in_flight_records gauge
kafka_mesh_in_flight_records{virtual_cluster="demo",group="demo",member="a",client_id="a"} 40.0
kafka_mesh_in_flight_records{virtual_cluster="demo",group="demo",member="b",client_id="b"} 2.0
kafka_mesh_in_flight_records{virtual_cluster="demo",group="mine",member="c",client_id="c"} 1000.0
# TYPE kafka_mesh_redelivered_records counter
kafka_mesh_redelivered_records_total{virtual_cluster="demo",group="demo"} 7.0
# TYPE kafka_mesh_connections gauge
kafka_mesh_connections{virtual_cluster="demo"} 9.0
"""


class Admin(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/metrics" else 503)
        self.end_headers()
        self.wfile.write(METRICS.encode())

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        partitions = [{"lag": 2}, {"lag": 3}] if asked["group"] == "demo" else []
        self.wfile.write(json.dumps({"active": True, "partitions": partitions}).encode())

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def admin() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Admin) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_the_configuration_is_one_that_the_mesh_takes(tmp_path: Path) -> None:
    endpoint = MeshEndpoint.on_free_ports()
    file = tmp_path / "mesh.yaml"
    file.write_text(endpoint.configuration("orders", {"eu": "127.0.0.1:1", "us": "127.0.0.1:2"}))
    config = load(file)
    assert {cluster.name: cluster.bootstrap_servers for cluster in config.clusters} == {
        "eu": "127.0.0.1:1",
        "us": "127.0.0.1:2",
    }
    (virtual_cluster,) = config.virtual_clusters
    assert str(virtual_cluster.listen) == endpoint.bootstrap_servers
    (topic,) = pool_of(config).topics
    assert isinstance(topic, NamedTopic)
    assert [(source.cluster, source.topic) for source in topic.sources] == [("eu", "orders"), ("us", "orders")]


def test_a_journal_is_kept_in_the_first_cluster(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    clusters = {"eu": "127.0.0.1:1", "us": "127.0.0.1:2"}
    file.write_text(MeshEndpoint.on_free_ports().configuration("orders", clusters, "journal"))
    journal = load(file).journal
    assert journal is not None
    assert (journal.cluster, journal.topic, journal.create) == ("eu", "journal", False)


def test_the_lag_is_that_of_all_partitions(admin: int) -> None:
    endpoint = MeshEndpoint(1, 2, admin)
    assert endpoint.lag("demo", "orders") == 5
    assert endpoint.lag("nobody", "orders") is None, "nothing is known of a group without partitions"


def test_ports_differ() -> None:
    endpoint = MeshEndpoint.on_free_ports()
    assert len({endpoint.port, endpoint.coordinator, endpoint.admin}) == 3


def test_readings_are_those_of_the_group(admin: int) -> None:
    endpoint = MeshEndpoint(1, 2, admin)
    assert endpoint.readings("demo") == Readings(in_flight=42, redelivered=7)
    assert endpoint.readings("nobody") == Readings(in_flight=0, redelivered=0)


def test_a_mesh_that_says_503_is_not_ready(admin: int) -> None:
    assert not MeshEndpoint(1, 2, admin).is_ready()


def test_a_mesh_that_is_not_there() -> None:
    nobody = MeshEndpoint(1, 2, MeshEndpoint.on_free_ports().admin)
    assert not nobody.is_ready()
    assert nobody.readings("demo") is None
    assert nobody.lag("demo", "orders") is None
