"""A mesh with targets of all kinds that the configuration alone can have, in front of one broker, while each kind of
owner fails: the process lives, other virtual clusters serve, and the part that was hit recovers and is reported."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import anyio
import pytest
import yaml
from anyio.to_thread import run_sync
from confluent_kafka import Consumer, Producer
from structlog.testing import capture_logs

from mesh import tasks
from mesh.app import application
from mesh.app.application import Application
from mesh.config.load import load
from mesh.runtime.pool.engines import Engines
from mesh.tasks import Owner, TaskName
from tests.app.test_refused_reloads import failures_of
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import free_ports
from tests.planted import PLANTED, Planting

pytestmark = [pytest.mark.anyio, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(300)]

KEPT = (TaskName.LOOP_LAG, TaskName.BROKERS, TaskName.LEADERS)
"""Tasks of the process, of a cluster and of a virtual cluster. They start again."""
BEGUN = (TaskName.LEG, TaskName.REQUEST)
"""Tasks of a connection and of a request: the client connects again."""
CALLED = (TaskName.EFFECT,)
"""Calls for a group."""
PATIENT = 60.0


class Clients:
    """A consumer at each virtual cluster."""

    def __init__(self, kafka: KafkaCluster, topic: str, addresses: dict[str, str]) -> None:
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        self._topic = topic
        self._count = 0
        self._addresses = addresses
        self._consumers: dict[str, Consumer] = {}

    def connect(self) -> None:
        """Makes all consumers anew."""
        self.close()
        for name, address in self._addresses.items():
            own = {"bootstrap.servers": address, "group.id": f"planted-{name}", "auto.offset.reset": "earliest"}
            self._consumers[name] = Consumer({**own, "reconnect.backoff.max.ms": 200, "client.id": name})
            self._consumers[name].subscribe([self._topic])

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def serve(self) -> None:
        """Checks that each virtual cluster serves a new record."""
        self._count += 1
        value = b"%d" % self._count
        self._producer.produce(self._topic, value)
        assert self._producer.flush(PATIENT) == 0
        for name, consumer in self._consumers.items():
            while True:
                message = consumer.poll(PATIENT)
                assert message is not None, f"{name} has no record"
                if message.error() is None and message.value() == value:
                    consumer.commit(message=message, asynchronous=False)
                    break


def configuration(kafka: KafkaCluster, addresses: dict[str, str]) -> dict[str, Any]:
    ports = [*free_ports(6)]
    router = {"config": {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"}, "type": "topics"}
    routes = [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}]
    clients = {"name": "door", "type": "clients", "config": {"default": "all"}}
    relay, union = {"relay": {"cluster": "eu"}}, {"router": "regions"}
    places = {"relay": [1], "union": {"eu": [1]}, "choice": {"all/eu": [1]}}
    targets = {"relay": relay, "union": union, "choice": {"router": "door"}, "one": relay, "one-union": union}
    virtual_clusters: list[dict[str, Any]] = [
        {
            "name": name,
            "listen": addresses[name],
            "nodes": {"ports": ports.pop(), "ids": places[name]} if name in places else "one",
            "target": target,
        }
        for name, target in targets.items()
    ]
    pool = {"topics": [{"prefix": "planted-", "cluster": "eu"}], "groups": ["*"]}
    coordinator = f"127.0.0.1:{ports.pop()}"
    virtual_clusters.append(
        {"name": "pool", "listen": addresses["pool"], "coordinator": coordinator, "target": {"pool": pool}}
    )
    return {
        "admin": {"listen": f"127.0.0.1:{ports.pop()}"},
        "clusters": [{"name": "eu", "bootstrap_servers": kafka.bootstrap_servers}],
        "routers": [
            {"name": "regions", **router, "routes": routes},
            {**clients, "routes": [{"name": "all", "id": 0, "target": union}]},
        ],
        "virtual_clusters": virtual_clusters,
    }


def asked(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENT) as answer:
            found: dict[str, Any] = json.load(answer)
    except HTTPError as problem:
        found = json.load(problem)
    return found


@pytest.mark.parametrize("problem", PLANTED, ids=lambda each: type(each).__name__)
async def test_an_owner_that_fails_costs_no_other_owner_anything(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException
) -> None:
    assert {name.owner for name in (*KEPT, *BEGUN, *CALLED)} == set(Owner)
    topic = f"planted-{type(problem).__name__}"
    await run_sync(kafka.create_topic, topic, 1)
    names = ("relay", "union", "choice", "one", "one-union", "pool")
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(6), strict=True)}
    tree, file = configuration(kafka, addresses), tmp_path / "mesh.yaml"
    file.write_text(yaml.safe_dump(tree))
    monkeypatch.setattr(application, "_leave_out_what_stays", lambda: None)
    monkeypatch.setattr(tasks, "SHORTEST_REST", 2.0)
    monkeypatch.setattr(tasks, "SETTLED", 2.0)
    apps, codes, begin = list[Application](), list[int](), Application.__init__

    def begun(app: Application, *arguments: Any) -> None:
        begin(app, *arguments)
        apps.append(app)

    monkeypatch.setattr(Application, "__init__", begun)

    async def run() -> None:
        codes.append(await application._run(load(file), file, None))

    async def until(is_so: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENT):
            while not is_so():  # noqa: ASYNC110 - the process has no event for it
                await anyio.sleep(0.05)

    def degraded() -> set[str]:
        return {str(each["task"]) for each in apps[0].task_health.described()}

    clients = Clients(kafka, topic, addresses)
    kept, later = Planting(KEPT, problem, 2), Planting(BEGUN, problem, 1)
    called = Planting(CALLED, problem, 1)
    ready = f"http://{tree['admin']['listen']}/readyz"
    with capture_logs() as logs:
        async with anyio.create_task_group() as group:
            with kept.patched():
                group.start_soon(run)
                await until(lambda: bool(apps) and apps[0]._readiness.listening)
                await until(lambda: kept.thrown == set(KEPT))
            await until(lambda: {name.value for name in KEPT} <= degraded())
            shown = await run_sync(partial(asked, ready))
            assert {name.value for name in KEPT} <= {each.get("task") for each in shown["degraded"]}, shown
            await run_sync(clients.connect)
            await run_sync(clients.serve)
            await until(lambda: not degraded())
            with later.patched():
                await run_sync(clients.connect)
                await run_sync(clients.serve)
            assert later.thrown == set(BEGUN)
            command = Engines.command

            def fail_once(engines: Engines, effect: Any) -> None:
                if not called.thrown:
                    called.throw()
                command(engines, effect)

            with monkeypatch.context() as patched:
                patched.setattr(Engines, "command", fail_once)
                await run_sync(clients.connect)
                await run_sync(clients.serve)
            assert called.thrown
            await run_sync(clients.serve)
            told = {each["task"] for each in logs if each["event"] == "task failed"}
            is_handled = isinstance(problem, Exception)
            """Exceptions at the opening of a leg and in a request are logged as bugs, and close the connection."""
            assert told >= {name.value for name in (*KEPT, *CALLED, *(() if is_handled else BEGUN))}
            assert failures_of(apps[0], TaskName.EFFECT.value) == 1
            await run_sync(clients.close)
            os.kill(os.getpid(), signal.SIGTERM)
    assert codes == [0]
