"""The router of docs/routers.md in a wheel of its own, installed beside kafka-mesh."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.routing.test_documentation import shown

CHECK = "import sys; from mesh.cli import main; sys.argv = ['kafka-mesh', 'check', sys.argv[1]]; main()"


def wheel(folder: Path) -> Path:
    """As any build backend makes one of the page's pyproject.toml."""
    project = tomllib.loads(shown("toml", "entry-points"))["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    ((group, points),) = project["entry-points"].items()
    metadata = f"{name}-{version}.dist-info"
    files = {
        "tenants.py": shown("python", "class TenantsFactory"),
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{metadata}/entry_points.txt": "\n".join([f"[{group}]", *(f"{key} = {at}" for key, at in points.items())]),
    }
    files[f"{metadata}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{metadata}/RECORD"])
    made = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return made


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where pip has installed it."""
    folder = tmp_path / "site"
    words = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder)]
    subprocess.run([sys.executable, *words, str(wheel(tmp_path))], check=True)
    return folder


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
