"""SIGHUP from the first line of the command on."""

from __future__ import annotations

import json
import signal
import sys
import urllib.request
from pathlib import Path

import yaml

from mesh import hangups
from tests.app.running import MockCluster, cluster_of, virtual_cluster
from tests.integration.processes import START, ChildProcess, eventually, free_port

PROGRAM = """
import os, signal, sys
from mesh.__main__ import main

class SendsHangups:
    def find_spec(self, name, path=None, target=None):
        if name in ("mesh.cli", "typer", "mesh.config", "mesh.app.application", "confluent_kafka"):
            os.kill(os.getpid(), signal.SIGHUP)

sys.meta_path.insert(0, SendsHangups())
main()
"""


def test_a_reload_during_the_start_happens_after_it(tmp_path: Path) -> None:
    admin, file = free_port(), tmp_path / "mesh.yaml"
    configuration = {
        "admin": {"listen": f"127.0.0.1:{admin}"},
        "clusters": [cluster_of("eu", MockCluster())],
        "virtual_clusters": [virtual_cluster("shop", ["eu"])],
    }
    file.write_text(yaml.safe_dump(configuration))
    mesh = ChildProcess([sys.executable, "-c", PROGRAM, "run", file], log=tmp_path / "mesh.log")

    def is_applied() -> bool:
        assert mesh.exit_code is None, mesh.log_tail()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{admin}/status", timeout=30) as answer:
                return bool(json.load(answer)["configuration"]["state"] == "applied")
        except OSError:
            return False

    eventually("the file is read again", is_applied, timeout=START)
    mesh.signal(signal.SIGTERM)
    assert mesh.wait(60) == 0


def test_hangups_are_remembered_once() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        hangups.remember()
        assert not hangups.take()
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert hangups.take()
        assert not hangups.take()
    finally:
        signal.signal(signal.SIGHUP, before)
