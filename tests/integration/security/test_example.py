"""config/secure-downstream.yaml as it is, with an admin address behind HTTPS and a token; and files with mistakes."""

from __future__ import annotations

import os
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.integration.kafka import CLIENT_PROPERTIES
from tests.integration.mesh_process import KAFKA_MESH
from tests.integration.processes import ChildProcess, eventually, free_port
from tests.integration.security.certificates import Authority
from tests.integration.security.secured import Login

EXAMPLE = Path(__file__).parents[3] / "config" / "secure-downstream.yaml"
TOKEN, PASSWORD = "a token of many characters", "sesam, open"


def variables(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "ADMIN_LISTEN": f"127.0.0.1:{free_port()}",
        "ADMIN_TOKEN": TOKEN,
        "LISTEN": f"127.0.0.1:{free_port()}",
        "COORDINATOR": f"127.0.0.1:{free_port()}",
        "CERTIFICATES": str(folder),
        "BILLING_PASSWORD": PASSWORD,
        "OPERATOR_PASSWORD": PASSWORD,
        "EU_BOOTSTRAP": f"127.0.0.1:{free_port()}",
    }


def test_the_example(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("mesh", "tls")
    environment = variables(tmp_path)
    mesh = ChildProcess(
        ["env", *(f"{name}={value}" for name, value in environment.items()), KAFKA_MESH, "run", EXAMPLE],
        log=tmp_path / "log",
    )
    context = ssl.create_default_context(cafile=authority.certificate)

    def status(path: str, token: str | None = None) -> int:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"https://{environment['ADMIN_LISTEN']}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=5, context=context) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    try:
        eventually("/healthz", lambda: status("/healthz") == 200, timeout=30)
        assert (status("/metrics"), status("/metrics", TOKEN[:-1]), status("/metrics", TOKEN)) == (401, 401, 200)
        login = Login("SCRAM-SHA-512", authority.certificate, "billing", PASSWORD)
        admin = AdminClient({**CLIENT_PROPERTIES, "bootstrap.servers": environment["LISTEN"], **login.librdkafka()})

        def brokers() -> int:
            try:
                return len(admin.list_topics(timeout=2).brokers)
            except KafkaException:  # clients are admitted after the wait for upstream clusters
                return 0

        assert eventually("the client is let in", brokers) == 2
    finally:
        mesh.kill()


@pytest.mark.parametrize("wrong", ["missing", "no certificate"])
def test_files_that_cannot_be_used(tmp_path: Path, wrong: str) -> None:
    if wrong != "missing":
        (tmp_path / "tls.crt").write_text(wrong)
        (tmp_path / "tls.key").write_text(wrong)
    done = subprocess.run(
        [KAFKA_MESH, "run", EXAMPLE], env=variables(tmp_path), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    key = "admin.tls.certificate_file" if wrong == "missing" else "admin.tls"
    assert f"{key}: " in done.stderr  # Both addresses have the same files, and this one opens first.
    assert str(tmp_path / "tls.crt") in done.stderr
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stderr
