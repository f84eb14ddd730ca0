"""The health of the tasks that no code awaits, for logs, metrics and /readyz.

A task that fails is logged once, with a traceback, and again when it fails for another reason. All failures are
counted. There is one more entry when the task works again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from traceback import format_exception
from typing import Final

from mesh.tasks import OwnedTask, TaskName
from mesh.telemetry.log_rate import LogRate
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics

log = get_logger(__name__)

WHAT: Final = "task failed"


@dataclass(slots=True)
class _Failing:
    """A task that has failed, and has not worked long enough since. began: seconds on the clock. rest: seconds until it
    starts again."""

    reason: str
    began: float
    since: datetime
    rest: float


class TaskHealth:
    """The failures of tasks. Implements `mesh.tasks.TaskReports`. Everything runs on the event loop's thread."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._failing: dict[OwnedTask, _Failing] = {}
        self._rate: Final = LogRate()
        for name in TaskName:
            metrics.watch_task(name.value)

    def failed(self, task: OwnedTask, problem: BaseException, rest: float | None) -> None:
        self._metrics.task_failed(task.name.value)
        now, reason = self._clock(), reason_of(problem)
        known = self._failing.get(task)
        if known is not None and rest is not None:
            is_told, known.reason, known.rest = known.reason == reason, reason, rest
            if is_told:
                return
        elif rest is not None:
            self._failing[task] = _Failing(reason, now, datetime.now(UTC), rest)
        left_out = self._rate.admit(now)
        if left_out is None:
            return
        log.error(
            "task failed",
            **_fields(task),
            owner=task.name.owner.value,
            reason=reason,
            meanwhile=_meanwhile(rest),
            left_out=left_out,
            traceback="".join(format_exception(problem)),
        )

    def works(self, task: OwnedTask) -> None:
        failing = self._failing.pop(task, None)
        if failing is not None:
            log.info("task works again", seconds=round(self._clock() - failing.began, 1), **_fields(task))

    def forget(self, task: OwnedTask) -> None:
        self._failing.pop(task, None)

    def described(self) -> list[dict[str, object]]:
        """Returns the tasks that fail at present, in the form of `UpstreamHealth.described`."""
        now = self._clock()
        return [
            {
                "what": WHAT,
                **_fields(task),
                "reason": each.reason,
                "since": each.since.isoformat(timespec="seconds"),
                "seconds": round(now - each.began, 1),
                "meanwhile": _meanwhile(each.rest),
            }
            for task, each in self._failing.items()
        ]


def reason_of(problem: BaseException) -> str:
    """Returns an exception as one line; of a group, the exceptions in it."""
    if isinstance(problem, BaseExceptionGroup):
        return "; ".join(map(reason_of, problem.exceptions))
    try:
        text = str(problem)
    except Exception:  # noqa: BLE001 - a failure that has no text must be reported, too
        text = "its text cannot be made"
    return f"{type(problem).__name__}: {text}".removesuffix(": ").replace("\n", " ")


def _meanwhile(rest: float | None) -> str:
    return "all other tasks continue" + ("" if rest is None else f"; this one starts again after {rest:g} s")


def _fields(task: OwnedTask) -> dict[str, str]:
    owner = {"virtual_cluster": task.virtual_cluster, "cluster": task.cluster, "group": task.group}
    return {"task": task.name.value, **{key: name for key, name in owner.items() if name}}
