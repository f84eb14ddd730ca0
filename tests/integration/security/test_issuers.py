"""Issuers of tokens that answer with something that is no HTTP: the process goes on, with all other clients."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.app.running import MockCluster, RunningMesh, virtual_cluster
from tests.integration.processes import eventually

pytestmark = pytest.mark.timeout(300)

ANSWERS = [
    b"\x15\x03\x01\x00\x02\x02\x50",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
]
"""A TLS alert, half of a chunked answer, and JSON that is nested too deep."""


def test_the_process_starts_and_goes_on_whatever_an_issuer_answers(tmp_path: Path) -> None:
    cluster = MockCluster()
    answers: dict[bytes, int] = {}
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in ANSWERS]

    def serve(server: socket.socket, answer: bytes) -> None:
        while True:
            try:
                accepted, _ = server.accept()
            except OSError:
                return
            with accepted:
                accepted.recv(10_000)
                accepted.sendall(answer)
                answers[answer] = answers.get(answer, 0) + 1

    virtual_clusters = [virtual_cluster("shop", ["eu"])]
    for number, (server, answer) in enumerate(zip(listening, ANSWERS, strict=True)):
        threading.Thread(target=serve, args=(server, answer), daemon=True).start()
        tokens = {"jwks_url": f"http://127.0.0.1:{server.getsockname()[1]}/keys", "issuer": "here", "audiences": ["a"]}
        sasl = {"mechanisms": ["OAUTHBEARER"], "oauthbearer": tokens}
        virtual_clusters.append(virtual_cluster(f"tokens-{number}", ["eu"], sasl=sasl))
    mesh = RunningMesh(tmp_path, {"eu": cluster}, {"virtual_clusters": virtual_clusters})
    try:
        eventually("each is asked", lambda: len(answers) == len(ANSWERS), timeout=60)
        log = tmp_path / "mesh.log"
        eventually(
            "all is told", lambda: log.read_text().count("token keys cannot be fetched") == len(ANSWERS), timeout=60
        )
        client = AdminClient({"bootstrap.servers": mesh.shop["listen"], "log_level": 0})
        assert client.list_topics(timeout=60).topics
        assert mesh.metric("kafka_mesh_task_failures_total") == 0

        tokens["jwks_url"] = "http://127.0.0.1:31028a/keys"
        mesh.write()
        refused = mesh.command()
        assert refused.returncode == 2
        assert "jwks_url" in refused.stderr
        assert "an http or https URL" in refused.stderr
        assert mesh.process.exit_code is None
    finally:
        mesh.process.kill()
        for server in listening:
            server.close()
