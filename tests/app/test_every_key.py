"""Every key of the configuration changes while the process runs, there and back, for every kind of target.

The clusters are not there, and clients see that by themselves; all virtual clusters must accept them all the same.
"""

from __future__ import annotations

import gc
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.streams.tls
import pytest
import yaml

from mesh.app import Application, application, clusters
from mesh.config.load import load
from mesh.tasks import Tasks
from tests.app.every_key import ROWS, SECTION, ChangingConfiguration, Refused, Tree
from tests.app.test_refused_reloads import Catalog
from tests.config.test_documentation import modelled
from tests.integration.keys_under_traffic import EXCEPTIONS, name_of
from tests.router.pass_through import install_pass_through
from tests.upstream.store.memory import MemoryStore

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

NOWHERE = "127.0.0.1:1"
IN_GATE = frozenset({"", "clusters[]", "virtual_clusters[]"})
"""The sections that `make test` changes. Each reload takes about half a second of CPU."""


class Process:
    """A process with every kind of target, inside of this one. base: its configuration before each change."""

    def __init__(self, folder: Path) -> None:
        self.changing = ChangingConfiguration(folder, NOWHERE, NOWHERE)
        self.base = self.changing.base
        self.file = folder / "mesh.yaml"
        self.write(self.base)
        self.app = Application(load(self.file), self.file)

    def write(self, tree: Tree) -> None:
        self.file.write_text(yaml.safe_dump(tree, sort_keys=False))

    async def reload(self, tree: Tree) -> tuple[int, dict[str, Any]]:
        self.write(tree)
        return await self.app._reconfiguring.ask()

    async def assert_all_accept(self, tree: Tree) -> None:
        names = [each.name for each in self.app._virtual_clusters.targets]
        assert names == [each["name"] for each in tree["virtual_clusters"]]
        for configured in tree["virtual_clusters"]:
            host, port = configured["listen"].split(":")
            async with await anyio.connect_tcp(host, int(port)) as stream:
                if (tls := configured.get("tls")) is not None and tls["client_authentication"] == "requested":
                    trusting = ssl.create_default_context(cafile=str(self.changing.authority.certificate))
                    await anyio.streams.tls.TLSStream.wrap(stream, hostname="localhost", ssl_context=trusting)

    def state(self) -> str:
        status = dict(self.app._readiness.status())
        status["configuration"] = dict(status["configuration"])["hash"]  # type: ignore[call-overload]
        return json.dumps([_without_connections(status), self.app._reconfiguring.degraded()])


def _without_connections(status: Any) -> Any:
    """The status without counts of connections: those of the test end a little later."""
    match status:
        case dict():
            return {key: _without_connections(each) for key, each in status.items() if key != "connections"}
        case list():
            return [*map(_without_connections, status)]
        case _:
            return status


@asynccontextmanager
async def running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Process]:
    install_pass_through(folder, monkeypatch)
    monkeypatch.setattr(clusters, "TopicCatalog", Catalog)
    monkeypatch.setattr(application, "_open_store", lambda _: None)
    process = Process(folder)
    process.app._virtual_clusters._store = MemoryStore()
    try:
        async with anyio.create_task_group() as group:
            await process.app.start(Tasks(group, process.app.task_health))
            yield process
            assert await process.app.drain()
            group.cancel_scope.cancel()
    finally:
        gc.unfreeze()


def test_every_key_has_a_row() -> None:
    """If this fails, add a row to `ROWS`, and the key to `configuration` if its section is missing there."""
    sections = modelled()
    assert {name: set(keys) for name, keys in ROWS.items()} == {name: set(keys) for name, keys in sections.items()}
    for section, rows in ROWS.items():
        for key, row in rows.items():
            inner = f"{section.partition(' by ')[0]}.{key}".lstrip(".")
            has_keys = any(name == inner or name.startswith((f"{inner}.", f"{inner}[")) for name in sections)
            assert row is not SECTION or has_keys, f"{inner} has no keys of its own"


def test_exceptions_under_traffic_are_keys() -> None:
    assert {name_of(section, key) for section, rows in ROWS.items() for key in rows} >= EXCEPTIONS.keys()


@pytest.mark.parametrize(
    "section", [pytest.param(name, marks=[] if name in IN_GATE else [pytest.mark.long]) for name in ROWS]
)
async def test_every_key_there_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str) -> None:
    rows = {key: row for key, row in ROWS[section].items() if row is not SECTION}
    if not rows:
        return
    async with running(tmp_path, monkeypatch) as process:
        await process.assert_all_accept(process.base)
        before, failures = process.state(), process.app._metrics.registry
        for key, row in rows.items():
            tree = process.changing.changed(section, key, row)
            status, answer = await process.reload(tree)
            if isinstance(row, Refused):
                assert (status, answer["state"]) == (422, "refused"), (key, answer)
                assert (section.partition(".")[0] or key) in answer["problem"], key
                assert process.state() == before, key
                continue
            assert (status, answer["problems"]) == (200, []), (key, answer)
            assert answer["changes"], f"{key} is not another value"
            await process.assert_all_accept(tree)
            status, answer = await process.reload(process.base)
            assert (status, answer["problems"]) == (200, []), (key, answer)
            assert answer["changes"], key
            await process.assert_all_accept(process.base)
            assert process.state() == before, key
        assert failures.get_sample_value("kafka_mesh_task_failures_total", {"task": "reload"}) in (0.0, None)
