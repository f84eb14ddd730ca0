"""The failures of the supervisor's own tasks at its admin address."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from mesh.config.security.model import TlsConfig
from mesh.listener import certificates
from mesh.listener.admin_tls import AdminCertificate
from mesh.supervision.admin import WorkersAdmin
from mesh.tasks import OwnedTask, TaskName
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth
from tests.integration.security.certificates import Authority

pytestmark = pytest.mark.anyio


async def test_they_are_counted_and_listed_as_those_of_worker_0() -> None:
    metrics = Metrics()
    health = TaskHealth(metrics)
    admin = WorkersAdmin([], lambda: True, Mock(), metrics, health)
    with capture_logs():
        health.failed(OwnedTask(TaskName.WATCHED_FILES), KeyError("relay"), 1.0)
    exposition = bytes((await admin._metrics(Mock())).body).decode()
    assert 'kafka_mesh_task_failures_total{task="watched_files",worker="0"} 1.0' in exposition
    assert exposition.count("# TYPE kafka_mesh_task_failures_total") == 1
    (degraded,) = json.loads(bytes((await admin._readyz(Mock())).body))["degraded"]
    assert (degraded["task"], degraded["worker"]) == ("watched_files", 0)


async def test_the_certificate_of_the_admin_address_is_that_of_worker_0(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("admin", life=timedelta(minutes=1))
    config = TlsConfig(certificate_file=str(pair.certificate), key_file=str(pair.key))
    metrics, watched = Metrics(), [AdminCertificate(config).files]
    metrics.add_collector(partial(certificates.samples, watched))
    admin = WorkersAdmin([], lambda: True, Mock(), metrics, TaskHealth(metrics), watched)
    (degraded,) = json.loads(bytes((await admin._readyz(Mock())).body))["degraded"]
    assert (degraded["what"], degraded["path"], degraded["worker"]) == (certificates.WHAT, str(pair.certificate), 0)
    exposition = bytes((await admin._metrics(Mock())).body).decode()
    (line,) = [each for each in exposition.splitlines() if each.startswith("kafka_mesh_certificate_ends_soon{")]
    assert 'worker="0"' in line and line.endswith(" 1.0")
