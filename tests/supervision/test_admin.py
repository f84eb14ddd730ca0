"""The failures of the supervisor's own tasks at its admin address."""

from __future__ import annotations

import json
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from mesh.supervision.admin import WorkersAdmin
from mesh.tasks import OwnedTask, TaskName
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth

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
