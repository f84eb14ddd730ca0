"""Packages with routers, as pip leaves them behind."""

from __future__ import annotations

from pathlib import Path

import pytest


def install(folder: Path, module: str, text: str, entry_points: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """entry_points: lines of the group `kafka_mesh.routers`."""
    site = folder / "site"
    metadata = site / f"{module}-1.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{module}.py").write_text(text)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[kafka_mesh.routers]\n{entry_points}")
    monkeypatch.syspath_prepend(str(site))
