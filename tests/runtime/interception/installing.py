"""An interceptor of another package, as pip leaves it behind."""

from __future__ import annotations

from pathlib import Path

import pytest


def install(folder: Path, target: str, monkeypatch: pytest.MonkeyPatch, name: str = "misbehaving") -> None:
    """target: MODULE:CLASS, which can be imported."""
    metadata = folder / "site" / f"{name}-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[kafka_mesh.interceptors]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
