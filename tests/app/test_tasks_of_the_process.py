"""Unforeseen exceptions in every task of the process: the process continues, and the task starts again."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from structlog.testing import capture_logs

from mesh import tasks
from mesh.app import application
from mesh.app.application import Application
from mesh.app.clusters import UpstreamClusters
from mesh.config.load import load
from mesh.tasks import GuardedSteps, OwnedTask, TaskName, Tasks
from tests.app.test_refused_reloads import failures_of
from tests.integration.processes import free_ports
from tests.integration.security.certificates import Authority
from tests.planted import PATIENCE, Planting, plants, throwing

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

AT = {TaskName.ADMIN: 5, TaskName.WATCHED_FILES: 1}
"""The await at which the exception is thrown, where it has to be this one. The admin address must have started, and a
watched file keeps what is thrown while it is read to itself."""
ATTEMPTS = {TaskName.HANDSHAKE, TaskName.RELOAD}
"""Tasks that do not start again."""


class Planted:
    """Throws once into every task. left: names of tasks that have not been hit."""

    def __init__(self, planting: Planting, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = set(planting.names)
        self._problem = planting.problem
        self._at = planting.at
        self._hurried: set[TaskName] = set()
        keep, attempt = Tasks.keep_running, GuardedSteps.attempt

        async def keep_running(of: Tasks, task: OwnedTask, run: Any, *more: Any) -> None:
            await keep(of, task, self._planted(task, run), *more)

        async def attempted(of: GuardedSteps, task: OwnedTask, run: Any) -> None:
            await attempt(of, task, self._planted(task, run) if task.name in ATTEMPTS else run)

        monkeypatch.setattr(Tasks, "keep_running", keep_running)
        monkeypatch.setattr(GuardedSteps, "attempt", attempted)

    def _planted(self, task: OwnedTask, run: Any) -> Callable[[], Awaitable[object]]:
        async def planted() -> object:
            at = AT.get(task.name, self._at)
            if task.name not in self.left or task.name in self._hurried:
                return await run()
            try:
                self._hurried.add(task.name)  # others of the same name would be hurried, too
                return await throwing(run(), at, self._problem, PATIENCE)
            finally:
                self.left.discard(task.name)

        return planted


def configuration(folder: Path) -> dict[str, Any]:
    pair = Authority(folder / "authority").issue("mesh")
    admin, listen, coordinator = free_ports(3)
    tokens = {"issuer": "here", "audiences": ["mesh"], "jwks_url": "http://127.0.0.1:1/keys"}
    return {
        "admin": {"listen": f"127.0.0.1:{admin}"},
        "peers": {"urls": ["http://127.0.0.1:1"], "interval": "1s"},
        "otlp": {"endpoint": "http://127.0.0.1:1", "metrics": {"interval": "1h"}},
        "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}],
        "virtual_clusters": [
            {
                "name": "shop",
                "listen": f"127.0.0.1:{listen}",
                "coordinator": f"127.0.0.1:{coordinator}",
                "tls": {"certificate_file": str(pair.certificate), "key_file": str(pair.key)},
                "sasl": {"mechanisms": ["OAUTHBEARER"], "oauthbearer": tokens},
                "target": {"pool": {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"]}},
            }
        ],
    }


@plants(
    TaskName.ACCEPTING,
    TaskName.ADMIN,
    TaskName.HANDSHAKE,
    TaskName.LOOP_LAG,
    TaskName.METRICS_EXPORT,
    TaskName.PEERS,
    TaskName.RELOAD,
    TaskName.REMINDERS,
    TaskName.SIGNALS,
    TaskName.TOKEN_KEYS,
    TaskName.WATCHED_FILES,
)
async def test_every_task_is_hit_and_the_process_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planting: Planting
) -> None:
    async def learn_topics(clusters: UpstreamClusters) -> None:
        clusters.topics_known.set()

    monkeypatch.setattr(UpstreamClusters, "learn_topics", learn_topics)
    monkeypatch.setattr(application, "_leave_out_what_stays", lambda: None)
    monkeypatch.setattr(tasks, "SHORTEST_REST", 0.2)
    monkeypatch.setattr(tasks, "SETTLED", 0.2)
    apps: list[Application] = []
    begin = Application.__init__

    def begun(app: Application, *arguments: Any) -> None:
        begin(app, *arguments)
        apps.append(app)

    monkeypatch.setattr(Application, "__init__", begun)
    planted = Planted(planting, monkeypatch)
    names = set(planting.names)
    tree, file = configuration(tmp_path), tmp_path / "mesh.yaml"
    file.write_text(yaml.safe_dump(tree))
    codes: list[int] = []

    async def run() -> None:
        codes.append(await application._run(load(file), file, None))

    async def until(is_so: Callable[[], bool]) -> None:
        with anyio.move_on_after(20):
            while not is_so():  # noqa: ASYNC110 - the process has no event for it
                await anyio.sleep(0.05)
        assert is_so(), (planted.left, apps and {name: failures_of(apps[0], name.value) for name in TaskName})

    async def connect() -> bool:
        """A TLS handshake; returns whether it succeeded."""
        context = ssl.create_default_context(cafile=str(tmp_path / "authority" / "ca.crt"))
        host, port = tree["virtual_clusters"][0]["listen"].split(":")
        try:
            _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")
        except OSError:
            return False
        writer.close()
        return True

    def failed(name: TaskName) -> bool:
        return failures_of(apps[0], name.value) == 1

    may_expect = isinstance(planting.problem, OSError | ValueError)
    """True if some tasks handle such an exception: it may come from the network, or be a wrong answer."""

    with capture_logs() as logs:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await until(lambda: bool(apps) and apps[0]._readiness.listening)
            os.kill(os.getpid(), signal.SIGHUP)
            while planted.left & {TaskName.ACCEPTING, TaskName.HANDSHAKE}:
                await connect()
                await anyio.sleep(0.05)
            await until(lambda: not planted.left)
            await until(lambda: all(failed(name) or may_expect for name in names))
            await until(lambda: not apps[0]._readiness.degraded())
            url = f"http://{tree['admin']['listen']}/reload"
            asked = urllib.request.Request(url, method="POST")
            with await anyio.to_thread.run_sync(urllib.request.urlopen, asked) as answer:
                assert answer.status == 200
            assert await connect()
            os.kill(os.getpid(), signal.SIGTERM)
    assert codes == [0]
    told = [(each["task"], each["event"]) for each in logs if each["event"] in ("task failed", "task works again")]
    failures = {name for name in names if (name.value, "task failed") in told}
    assert failures == names or may_expect
    assert set(told) == {
        *((name.value, "task failed") for name in failures),
        *((name.value, "task works again") for name in failures - ATTEMPTS),
    }
