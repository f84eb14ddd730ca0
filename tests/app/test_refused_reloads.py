"""A reload whose files change while it is prepared: it is refused as a whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
import yaml

from mesh.admin.http import AdminAccess
from mesh.admin.leases import LeaseApi
from mesh.app import reconfiguring
from mesh.app.clusters import UpstreamClusters
from mesh.app.readiness import Readiness
from mesh.app.reconfiguring import AdminSetup, Reconfiguring
from mesh.app.virtual_clusters import VirtualClusters
from mesh.config.load import load
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.listener.listener_setup import admin_certificate
from mesh.memory import MemoryBudget
from tests.integration.security.certificates import Authority


class Untouched:
    """Stands for the virtual clusters and the clusters: they are prepared, and nothing else happens to them."""

    def __init__(self) -> None:
        self.watched: list[object] = []
        self.is_prepared = False

    def names(self) -> list[str]:
        return ["shop"]

    def clusters_to_leave(self, configured: object, routers: object, reconnected: object) -> frozenset[object]:
        return frozenset()

    async def prepare(self, config: object, concerned: object) -> object:
        self.is_prepared = True
        return object()


def test_admin_certificates_that_change_during_a_reload(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pair = Authority(tmp_path / "authority").issue("mesh")
    tls = {"certificate_file": str(pair.certificate), "key_file": str(pair.key)}
    pool = {"pool": {"groups": ["*"], "topics": [{"cluster": "eu", "prefix": ""}]}}
    tree: dict[str, Any] = {
        "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:9092"}],
        "virtual_clusters": [{"name": "shop", "listen": "127.0.0.1:19092", "target": pool}],
        "admin": {"listen": "127.0.0.1:9644", "tls": tls},
    }
    file = tmp_path / "mesh.yaml"
    file.write_text(yaml.safe_dump(tree))
    config, untouched = load(file), Untouched()
    assert config.admin is not None
    assert config.admin.tls is not None
    clusters, virtual_clusters = cast("UpstreamClusters", untouched), cast("VirtualClusters", untouched)
    made = Reconfiguring(config, file, MemoryBudget(1 << 20), clusters, virtual_clusters)
    before = admin_certificate(config.admin.tls)
    untouched.watched.append(before.files)
    made.admin = AdminSetup(AdminAccess(), cast("LeaseApi", SimpleNamespace()), is_loopback=True, certificate=before)

    def read(*arguments: Any) -> Any:
        if untouched.is_prepared:
            raise ConfigurationError([Mistake(("admin", "tls"), "key", "another key")])
        return admin_certificate(*arguments)

    monkeypatch.setattr(reconfiguring, "admin_certificate", read)
    file.write_text(yaml.safe_dump({**tree, "budget": "1GiB"}))

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            made.begin(tasks, cast("Readiness", SimpleNamespace()))
            status, answer = await made.ask()
            assert (status, answer["state"]) == (422, "refused")

    asyncio.run(run())
    assert made.config == config
    assert made.admin.certificate is before
