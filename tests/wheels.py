"""Packages that the pages show, as wheels, and where pip installs them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path


def wheel(folder: Path, project: str, module: str, text: str) -> Path:
    """Makes a wheel like a build backend. project: the text of its pyproject.toml. text: of its only module."""
    read = tomllib.loads(project)["project"]
    name, version = read["name"].replace("-", "_"), read["version"]
    ((group, points),) = read["entry-points"].items()
    metadata = f"{name}-{version}.dist-info"
    files = {
        f"{module}.py": text,
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {read['name']}\nVersion: {version}\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{metadata}/entry_points.txt": "\n".join([f"[{group}]", *(f"{key} = {at}" for key, at in points.items())]),
    }
    files[f"{metadata}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{metadata}/RECORD"])
    made = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
    return made


def installed(folder: Path, wheel: Path) -> Path:
    """The folder into which pip has installed it."""
    site = folder / "site"
    words = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(site)]
    subprocess.run([sys.executable, *words, str(wheel)], check=True)
    return site
