"""A reload while the process runs out of open files: it is refused, or applied as a whole."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.app.running import MockCluster, RunningMesh, virtual_cluster
from tests.integration.processes import eventually, free_port
from tests.integration.security.certificates import Authority
from tests.integration.security.test_odd_certificates import is_served

pytestmark = pytest.mark.timeout(300)


def limit_that_leaves(spare: int, pid: int) -> int:
    """The limit of open files with which a process has so many left. It bounds their numbers, and some are free."""
    numbers = sorted(map(int, os.listdir(f"/proc/{pid}/fd")))
    free = [number for number in range(numbers[-1] + spare + 2) if number not in numbers]
    return free[spare]


def test_it_is_refused_and_the_process_goes_on(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    pair = authority.issue("mesh")
    tls = {"certificate_file": str(pair.certificate), "key_file": str(pair.key)}
    address = f"127.0.0.1:{free_port()}"
    front: dict[str, Any] = {
        "name": "front",
        "listen": address,
        "nodes": {"ports": free_port(), "ids": [1]},
        "tls": tls,
        "target": {"relay": {"cluster": "eu"}},
    }
    cluster = MockCluster()
    mesh = RunningMesh(
        tmp_path, {"eu": cluster}, {"drain_grace": "1s", "virtual_clusters": [virtual_cluster("shop", ["eu"]), front]}
    )
    pid, log = mesh.process.pid, tmp_path / "mesh.log"
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)

    def outcomes() -> list[str]:
        events = ("configuration not reloaded", "configuration reloaded")
        return [line for line in log.read_text().splitlines() if any(f'"{each}"' in line for each in events)]

    try:
        for spare in range(4):
            front["limits"] = {"connections": 1_000 + spare}
            front["tls"] = {**tls, "minimum_version": "TLSv1.3" if spare % 2 else "TLSv1.2"}
            mesh.configuration["clusters"][0]["properties"] = {"client.id": f"mesh-{spare}"}
            mesh.write()
            told = len(outcomes())
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit_that_leaves(spare, pid), before[1]))
            mesh.process.signal(signal.SIGHUP)
            eventually("an outcome", lambda told=told: len(outcomes()) > told, timeout=60)  # type: ignore[misc]
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            assert mesh.process.exit_code is None
            problems: list[Any] = mesh.configured()["problems"]
            assert all("Too many open files" in each for each in problems), problems
            mesh.reload()
            eventually("it is served", lambda: is_served(address, authority, pair), timeout=60)
        assert any("Too many open files" in line for line in outcomes())
        assert mesh.configured()["problems"] == []
    finally:
        mesh.process.kill()
