"""The supervisor of `workers: N`: starts the processes, keeps them running, answers for all of them, and stops them."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import anyio
import anyio.abc
from anyio.to_thread import run_sync

from mesh import hangups
from mesh.admin.access import AdminAccess
from mesh.admin.http import bind_admin, serve_http
from mesh.app.targets import addresses_of
from mesh.config.load import load
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import Config
from mesh.listener import certificates
from mesh.listener.admin_tls import AdminTls, admin_certificate
from mesh.listener.watched_files import Watched, watch
from mesh.supervision.admin import WorkersAdmin
from mesh.supervision.worker_process import WorkerProcess, WorkerRequest, WorkerUnavailable
from mesh.tasks import OwnedTask, TaskName, Tasks, reporting
from mesh.telemetry.logs import configure_logs, get_logger
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth

log = get_logger(__name__)

MARGIN: Final = 5.0
"""Seconds beyond `drain_timeout` after which a worker that is stopping is killed."""
LONGEST_RELOAD: Final = 600.0
"""Seconds that one worker has for a reload."""
LONGEST_START: Final = 60.0
"""Seconds for which a reload waits for a worker that is starting."""


def supervise(config: Config, file: Path) -> int:
    """Serves with several processes until SIGTERM or SIGINT; SIGHUP makes all of them read the file again. Returns the
    exit code. Raises ConfigurationError if an address cannot be listened on."""
    configure_logs(config.log.level, config.log.format)
    return anyio.run(_run, config, file, backend="asyncio", backend_options={"use_uvloop": True})


async def _run(config: Config, file: Path) -> int:
    _try_common_addresses(config)
    supervisor = Supervisor(config, file)
    receiver = anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    with receiver as signals, reporting(supervisor.task_health):
        async with anyio.create_task_group() as group:
            tasks = Tasks(group, supervisor.task_health)
            await supervisor.serve_admin(tasks)
            tasks.keep(OwnedTask(TaskName.SIGNALS), partial(supervisor.heed_signals, signals, tasks))
            code = await supervisor.run()
            group.cancel_scope.cancel()
    log.info("stopped")
    return code


class Supervisor:
    """The supervisor of several workers of one configuration. config: the last configuration that was read, which all
    workers have."""

    def __init__(self, config: Config, file: Path) -> None:
        self._config = config
        self._file = file
        instance = uuid4().hex
        self._workers = [WorkerProcess(number, instance, file) for number in range(1, config.workers + 1)]
        self._access = AdminAccess()
        self._tls: AdminTls | None = None
        self._watched: list[Watched[Any]] = []
        self._at_work = anyio.Lock()
        self._stopping = anyio.Event()
        self._metrics = Metrics()
        self._metrics.add_collector(partial(certificates.samples, self._watched))
        self.task_health = TaskHealth(self._metrics)
        self._admit(config)

    async def serve_admin(self, tasks: Tasks) -> None:
        admin = self._config.admin
        if admin is None:
            return
        if admin.tls is not None:
            self._tls = AdminTls(admin_certificate(admin.tls))
            self._watched.append(self._tls.certificate.files)
            self._access.tls = self._tls.context
        asked = WorkersAdmin(self._workers, self._is_open, self.reload, self._metrics, self.task_health, self._watched)
        self._access.is_loopback = admin.listen.is_loopback
        app, listen = asked.app(), admin.listen
        unused = [bind_admin(listen)]

        async def serve(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            listener = unused.pop() if unused else bind_admin(listen)
            await serve_http(listener, app, self._access, task_status=task_status)

        await tasks.keep_started(OwnedTask(TaskName.ADMIN), serve)
        tasks.keep(OwnedTask(TaskName.WATCHED_FILES), partial(watch, self._watched, self._file_failed))

    def _file_failed(self, problem: BaseException) -> None:
        self.task_health.failed(OwnedTask(TaskName.WATCHED_FILES), problem, None)

    async def run(self) -> int:
        """Runs the workers. Returns the exit code of the process when all workers have ended."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stop_when_asked)
            async with anyio.create_task_group() as running:
                for worker in self._workers:
                    running.start_soon(self._keep_running, worker)
            tasks.cancel_scope.cancel()
        return max((worker.refused or 0 for worker in self._workers), default=0)

    async def heed_signals(self, signals: AsyncIterator[signal.Signals], tasks: Tasks) -> None:
        """Handles signals until cancelled. tasks: those of the process."""
        if hangups.take():
            tasks.start(OwnedTask(TaskName.RELOAD), self.reload)
        async for number in signals:
            if number == signal.SIGHUP:
                tasks.start(OwnedTask(TaskName.RELOAD), self.reload)
                continue
            if not self._stopping.is_set():
                log.info("stopping", signal=number.name)
            else:
                log.warning("stopped at once: second signal", signal=number.name)
                self._stop_workers()
            self._stopping.set()

    async def reload(self) -> tuple[int, Mapping[str, Any]]:
        """Makes the workers read the configuration again, one after the other. Returns the HTTP status and body of
        /reload. When one refuses, later workers keep their configuration."""
        async with self._at_work:
            body: Mapping[str, Any] = {}
            for worker in self._workers:
                await worker.until_started(LONGEST_START)  # a worker that is starting may have read the old file
                try:
                    answer = await worker.ask(WorkerRequest("POST", "/reload", deadline=LONGEST_RELOAD))
                except WorkerUnavailable as problem:
                    # The worker reads the file when it starts again.
                    log.warning("worker not reloaded", worker=worker.number, reason=str(problem))
                    continue
                body = answer.json()
                if answer.status != 200:
                    log.warning("worker not reloaded", worker=worker.number, reason=body.get("problem", ""))
                    return answer.status, {**body, "worker": worker.number}
            if not body:
                return 503, {"problem": "no worker answers"}
            try:
                self._admit(await run_sync(load, self._file, abandon_on_cancel=True))
            except ConfigurationError as problem:  # the file has changed again
                log.warning("configuration not reloaded", path=str(self._file), reason=str(problem))
            return 200, body

    def _admit(self, config: Config) -> None:
        """Applies the part of the configuration that concerns the supervisor itself."""
        self._config = config
        configure_logs(config.log.level, config.log.format)
        if config.admin is not None:
            self._access.take(config.admin)
        if self._tls is not None and config.admin is not None and config.admin.tls is not None:
            self._tls.replace(admin_certificate(config.admin.tls))
            self._watched[:] = [self._tls.certificate.files]

    def _is_open(self) -> bool:
        admin = self._config.admin
        return self._access.token is not None or (admin is not None and admin.listen.is_loopback)

    async def _keep_running(self, worker: WorkerProcess) -> None:
        await worker.keep_running()
        self._stopping.set()  # a worker ends by itself only if it cannot serve the configuration

    async def _stop_when_asked(self) -> None:
        await self._stopping.wait()
        self._stop_workers()
        await anyio.sleep(self._config.drain_timeout + MARGIN)
        for worker in self._workers:
            worker.kill()

    def _stop_workers(self) -> None:
        for worker in self._workers:
            worker.stop()


def _try_common_addresses(config: Config) -> None:
    """Raises ConfigurationError if another process has an address that all workers are to share: the kernel would
    divide the clients between that process and the workers."""
    mistakes = []
    for index, configured in enumerate(config.for_worker(1).virtual_clusters):
        for path, address, _, _, is_common in addresses_of(configured, config.routers):
            if is_common and (problem := _problem_with(address.host, address.port)) is not None:
                allowed = f"an address that is free ({problem})"
                mistakes.append(Mistake(("virtual_clusters", index, *path), str(address), allowed))
    if mistakes:
        raise ConfigurationError(mistakes)


def _problem_with(host: str, port: int) -> OSError | None:
    try:
        places: Sequence[Any] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, _, _, place in places:
            with socket.socket(family, kind) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                tried.bind(place)
    except OSError as problem:
        return problem
    return None
