"""A forked mesh is like one that was started: output, exit code, environment, signals, and an end with its test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.mesh_process import KAFKA_MESH
from tests.integration.processes import ChildProcess, completed, eventually, free_port
from tests.integration.starter import ForkedProcess, Starter


def configuration(folder: Path) -> Path:
    file = folder / "mesh.yaml"
    relay = {"name": "front", "listen": f"127.0.0.1:{free_port()}", "nodes": {"ports": f"{free_port()}"}}
    clusters = [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}]
    virtual_clusters = [{**relay, "target": {"relay": {"cluster": "eu"}}}]
    admin = {"listen": f"127.0.0.1:{free_port()}"}
    file.write_text(yaml.safe_dump({"admin": admin, "clusters": clusters, "virtual_clusters": virtual_clusters}))
    return file


def test_a_command_has_its_folder_output_and_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration(tmp_path)
    monkeypatch.chdir(tmp_path)
    good, bad = completed([KAFKA_MESH, "check", "mesh.yaml"]), completed([KAFKA_MESH, "check", "nowhere.yaml"])
    assert good.returncode == 0, good.stderr
    assert "bootstrap_servers: 127.0.0.1:1" in good.stdout
    assert bad.returncode == 2
    assert "nowhere.yaml" in bad.stderr
    assert bad.stdout == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)])
def test_it_ends_by_signals(tmp_path: Path, number: signal.Signals, code: int) -> None:
    log = tmp_path / "mesh.log"
    process = ChildProcess([KAFKA_MESH, "run", configuration(tmp_path)], log=log)
    eventually("it listens", lambda: '"event": "listening"' in log.read_text())
    assert process.exit_code is None
    assert os.getpgid(process.pid) == process.pid
    process.signal(number)
    assert process.wait(30) == code
    assert process.exit_code == code
    process.kill()


def test_it_is_forked_only_with_settings_like_those_of_the_process_that_forks() -> None:
    starter = Starter({**os.environ, "OF_THE_TEST": "1"})
    assert starter.serves({**os.environ, "OF_THE_TEST": "2"})
    assert not starter.serves({**os.environ, "PYTHONPATH": "elsewhere"})
    assert not starter.serves({**os.environ, "MALLOC_ARENA_MAX": "1"})
    starter.close()


def test_benchmarks_and_other_versions_are_not_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "kafka-mesh"
    other.write_text("#!/bin/sh\necho another version\n")
    other.chmod(0o755)
    assert completed([other, "--version"]).stdout == "another version\n"
    forked = ChildProcess([KAFKA_MESH, "--version"], log=tmp_path / "log")
    monkeypatch.delenv("PYTEST_VERSION")
    started = ChildProcess([KAFKA_MESH, "--version"], log=tmp_path / "log")
    for process, kind in ((forked, ForkedProcess), (started, subprocess.Popen)):
        assert isinstance(process._process, kind)
        assert process.wait(60) == 0


def test_it_ends_with_the_process_that_forks(tmp_path: Path) -> None:
    starter = Starter({**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    with (tmp_path / "log").open("ab") as log:
        process = starter.start(["run", str(configuration(tmp_path))], os.environ, log.fileno(), log.fileno())
    assert isinstance(process, ForkedProcess)
    starter.close()
    eventually("it is gone", lambda: not Path(f"/proc/{process.pid}").exists())
