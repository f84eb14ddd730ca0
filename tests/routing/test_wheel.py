"""The router of docs/own-routers.md in its own wheel, installed beside kafka-mesh."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.routing.test_documentation import shown
from tests.wheels import installed, wheel

CHECK = "import sys; from mesh.cli import main; sys.argv = ['kafka-mesh', 'check', sys.argv[1]]; main()"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    made = wheel(tmp_path, shown("toml", "entry-points"), "tenants", shown("python", "class TenantsFactory"))
    return installed(tmp_path, made)


def check(tree: object, folder: Path, site: Path | None) -> subprocess.CompletedProcess[str]:
    file = folder / "mesh.yaml"
    file.write_text(yaml.safe_dump(tree))
    environment = os.environ | ({"PYTHONPATH": str(site)} if site is not None else {})
    words = [sys.executable, "-c", CHECK, str(file)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def test_it_is_found_where_it_is_installed_and_nowhere_else(tmp_path: Path, site: Path) -> None:
    tree = yaml.safe_load(shown("yaml", "prefix: us."))
    tree |= yaml.safe_load(shown("yaml", "by-tenant"))
    tree["virtual_clusters"][0] |= {"nodes": {"ports": "19100-19119"}, "target": {"router": "by-tenant"}}
    found = check(tree, tmp_path, site)
    assert found.returncode == 0, found.stderr
    assert yaml.safe_load(found.stdout)["routers"][0]["type"] == "tenants"
    without = check(tree, tmp_path, None)
    assert without.returncode == 2
    assert (
        "routers[0].type: 'tenants': clients, topics, or an entry point of kafka_mesh.routers: none" in without.stderr
    )
    del tree["routers"][0]["config"]["default"]
    wrong = check(tree, tmp_path, site)
    assert wrong.returncode == 2
    assert "routers[0].config.default: (missing): required" in wrong.stderr
