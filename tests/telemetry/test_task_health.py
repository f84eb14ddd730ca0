"""The failures of tasks in the log, in metrics and in /readyz."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from mesh.tasks import OwnedTask, TaskName
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth

TASK = OwnedTask(TaskName.TOKEN_KEYS, "shop")


def failures(metrics: Metrics) -> dict[str, float]:
    """The failures by task."""
    families = text_string_to_metric_families(b"".join(metrics.exposition()).decode())
    samples = (sample for family in families for sample in family.samples)
    return {each.labels["task"]: each.value for each in samples if each.name == "kafka_mesh_task_failures_total"}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_failing_task_is_logged_once_counted_each_time_and_described() -> None:
    metrics, clock = Metrics(), Clock()
    health = TaskHealth(metrics, clock)
    assert failures(metrics) == {name.value: 0 for name in TaskName}
    with capture_logs() as logs:
        health.failed(TASK, KeyError("relay"), 1.0)
        health.failed(TASK, KeyError("relay"), 2.0)
        health.failed(TASK, OSError(24, "Too many open files"), 4.0)
    assert failures(metrics)["token_keys"] == 3
    assert [each["reason"] for each in logs] == ["KeyError: 'relay'", "OSError: [Errno 24] Too many open files"]
    assert {each["event"] for each in logs} == {"task failed"}
    assert (logs[0]["task"], logs[0]["virtual_cluster"]) == ("token_keys", "shop")
    assert "KeyError: 'relay'" in logs[0]["traceback"]
    clock.now += 7
    (described,) = health.described()
    assert described.pop("since")
    assert described == {
        "what": "task failed",
        "task": "token_keys",
        "virtual_cluster": "shop",
        "reason": "OSError: [Errno 24] Too many open files",
        "seconds": 7.0,
        "meanwhile": "all other tasks continue; this one starts again after 4 s",
    }
    with capture_logs() as logs:
        health.works(TASK)
        health.works(TASK)
    assert [(each["event"], each["seconds"]) for each in logs] == [("task works again", 7.0)]
    assert health.described() == []


def test_an_attempt_that_failed_is_over() -> None:
    health = TaskHealth(Metrics())
    health.failed(TASK, KeyError("relay"), None)
    assert health.described() == []


def test_a_cancelled_task_is_forgotten() -> None:
    health = TaskHealth(Metrics())
    health.failed(TASK, KeyError("relay"), 1.0)
    health.forget(TASK)
    assert health.described() == []


def test_failures_that_clients_cause_do_not_flood_the_log() -> None:
    metrics = Metrics()
    health = TaskHealth(metrics, Clock())
    with capture_logs() as logs:
        for _ in range(1_000):
            health.failed(OwnedTask(TaskName.HANDSHAKE, "shop"), KeyError("relay"), None)
    assert len(logs) == 50
    assert failures(metrics)["handshake"] == 1_000


class Unspeakable(Exception):
    """An exception of a library that fails at its text."""

    def __str__(self) -> str:
        raise KeyError("message")


def test_a_failure_without_a_text_is_reported() -> None:
    """The report of a failure must not fail: it would end the task that was to start again, and all others with it."""
    health = TaskHealth(Metrics())
    with capture_logs() as logs:
        health.failed(TASK, Unspeakable(), 1.0)
    assert [each["reason"] for each in logs] == ["Unspeakable: its text cannot be made"]
    assert [each["reason"] for each in health.described()] == ["Unspeakable: its text cannot be made"]
