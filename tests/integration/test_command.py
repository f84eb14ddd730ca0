"""The exit codes of the command, without any broker."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.integration.mesh_process import KAFKA_MESH


def test_wrong_configuration_exits_2_and_names_every_mistake(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(
        """
clusters:
  - {name: eu, bootstrap_servers: 127.0.0.1:9092}
virtual_clusters:
  - name: orders
    listen: 127.0.0.1:notaport
    target:
      pool:
        topics:
          - name: orders
            from: [{cluster: mars, topic: orders}]
        groups: ["*"]
        start: yesterday
"""
    )
    done = subprocess.run([KAFKA_MESH, "run", file], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2, done.stderr
    for value in ("notaport", "mars", "yesterday"):
        assert value in done.stderr


def test_missing_configuration_exits_2(tmp_path: Path) -> None:
    done = subprocess.run([KAFKA_MESH, "run", tmp_path / "no.yaml"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2, done.stderr
    assert "no.yaml" in done.stderr
