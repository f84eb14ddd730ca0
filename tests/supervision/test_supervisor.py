"""Several workers as processes, on librdkafka's mock cluster: status of all, kills, reloads, stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.app.running import COMMAND, Member, MockCluster, RunningMesh, cluster_of, virtual_cluster
from tests.integration.processes import ChildProcess, eventually, free_ports

pytestmark = pytest.mark.timeout(400)


class Workers(RunningMesh):
    """Two workers in front of one cluster."""

    def __init__(self, folder: Path, cluster: MockCluster) -> None:
        first, *_ = free_ports(6)
        configured = {
            **virtual_cluster("shop", ["eu"]),
            "listen": f"127.0.0.1:{first}",
            "coordinator": f"127.0.0.1:{first + 1}",
        }
        # The member may go to the other worker, which gets the dead one's partitions when its session has ended.
        upstream = {**cluster_of("eu", cluster), "properties": {"session.timeout.ms": 6_000}}
        whole = {"workers": 2, "clusters": [upstream], "virtual_clusters": [configured]}
        super().__init__(folder, {"eu": cluster}, whole)

    def pids(self) -> list[int | None]:
        return [each["pid"] for each in json.loads(self._get("/status"))["workers"]]

    def asked(self, path: str, method: str = "GET") -> tuple[int, Any]:
        request = urllib.request.Request(self.url + path, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)


@pytest.fixture
def cluster() -> MockCluster:
    return MockCluster()


@pytest.fixture
def mesh(cluster: MockCluster, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(tmp_path, cluster)
    yield workers
    workers.process.kill()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_they_are_one_mesh(mesh: Workers, cluster: MockCluster) -> None:
    """A member reads all records; answers cover both workers; a killed worker comes back; a reload and a stop reach
    both."""
    member = Member(mesh.shop["listen"])
    shown = cluster.produce({f"a-{number}" for number in range(40)})
    member.until(shown)
    (pool,) = mesh.virtual_cluster()["pools"]
    assert pool["member_count"] == 1
    assert len(pool["partitions"]) == 4
    assert mesh.metric("kafka_mesh_worker_up") == 2
    assert mesh.metric("kafka_mesh_records_out_total", worker=str(pool["members"][0]["worker"])) == 40
    assert mesh.asked("/workers/2/readyz") == (200, {"ready": True, "problems": [], "degraded": []})
    assert mesh.asked("/workers/3/readyz")[0] == 404
    with urllib.request.urlopen(urllib.request.Request(f"{mesh.url}/readyz", method="HEAD"), timeout=60) as response:
        assert (response.status, response.read()) == (200, b"")
    assert mesh.asked("/leases") == (200, {"leases": []})
    assert mesh.asked("/leases", "POST")[0] == 400
    assert mesh.asked("/drain?group=nobody", "POST")[1]["state"] == "drained"
    assert "no member holds a record" in mesh.asked("/records?group=billing")[1]["problem"]

    first, second = mesh.pids()
    assert first is not None
    assert second is not None
    os.kill((first, second)[pool["members"][0]["worker"] - 1], signal.SIGKILL)
    shown |= cluster.produce({f"b-{number}" for number in range(40)})
    member.until(shown)
    eventually("both are there", lambda: mesh.metric("kafka_mesh_worker_up") == 2, timeout=120)
    assert mesh.metric("kafka_mesh_worker_restarts_total") == 1
    eventually("both are ready", lambda: mesh.asked("/readyz")[0] == 200, timeout=120)

    mesh.shop["limits"] = {"connections": 100}
    assert mesh.reload() == ["virtual cluster shop: changed (limits)"]
    assert len({json.dumps(mesh.asked(f"/workers/{each}/status")[1]["configuration"]["hash"]) for each in (1, 2)}) == 1
    mesh.configuration["workers"] = 3
    mesh.write()
    refused = mesh.command()
    assert refused.returncode == 2
    assert "workers: 3 in place of 2: unchanged" in refused.stderr

    pids = mesh.pids()
    member.close()
    mesh.process.signal(signal.SIGTERM)
    assert mesh.process.wait(60) == 0, mesh.process.log_tail()
    assert all(pid is not None and is_gone(pid) for pid in pids)


@pytest.mark.long
def test_they_end_with_their_supervisor(mesh: Workers) -> None:
    pids = mesh.pids()
    os.kill(mesh.process.pid, signal.SIGKILL)
    for pid in pids:
        assert pid is not None
        eventually(f"{pid} ends", lambda pid=pid: is_gone(pid), timeout=60)  # type: ignore[misc]


@pytest.mark.long
def test_an_address_that_another_process_has(mesh: Workers, tmp_path: Path) -> None:
    """Else the kernel would divide the clients between both."""
    file = tmp_path / "other.yaml"
    file.write_text(yaml.safe_dump({**mesh.configuration, "admin": None}))
    done = subprocess.run([*COMMAND, "run", str(file)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert f"virtual_clusters[0].listen: {mesh.shop['listen']}: an address that is free" in done.stderr


@pytest.mark.long
def test_what_only_a_worker_finds_wrong_ends_all(tmp_path: Path, cluster: MockCluster) -> None:
    """Another process has the address of one worker."""
    mesh = Workers(tmp_path, cluster)
    try:
        own = int(mesh.shop["listen"].rpartition(":")[2]) + 4
        configured = {**mesh.shop, "listen": f"127.0.0.1:{own - 2}", "coordinator": f"127.0.0.1:{own + 7}"}
        file = tmp_path / "other.yaml"
        file.write_text(yaml.safe_dump({**mesh.configuration, "admin": None, "virtual_clusters": [configured]}))
        other = ChildProcess([*COMMAND, "run", file], log=tmp_path / "other.log")
        assert other.wait(120) == 2
        assert "an address that is free" in other.log.read_text()
    finally:
        mesh.process.kill()


@pytest.mark.long
def test_what_workers_print_is_no_answer(tmp_path: Path, cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's code prints at its import, and starts a process that keeps the worker's output open after the worker's
    end. The supervisor starts the worker again all the same."""
    (tmp_path / "sitecustomize.py").write_text(
        "import subprocess, sys\n"
        "if '--worker' in sys.argv or '--worker' in sys.orig_argv:\n"
        "    print('17', flush=True)\n"
        "    subprocess.Popen(['sleep', '60'])\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    mesh = Workers(tmp_path, cluster)
    try:
        (first, _) = mesh.pids()
        assert first is not None
        os.kill(first, signal.SIGKILL)
        eventually("it is started again", lambda: mesh.metric("kafka_mesh_worker_restarts_total") == 1)
        eventually("both are ready", lambda: mesh.asked("/readyz")[0] == 200, timeout=120)
        mesh.process.signal(signal.SIGHUP)
        mesh.process.signal(signal.SIGTERM)
        assert mesh.process.wait(60) == 0, mesh.process.log_tail()
    finally:
        mesh.process.kill()
