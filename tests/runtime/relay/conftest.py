"""Paces that tests do not wait for."""

from __future__ import annotations

import pytest

from mesh.runtime.relay import nodes


@pytest.fixture(autouse=True)
def fast_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that something has asked for comes at once."""
    monkeypatch.setattr(nodes, "WORTHWHILE", 0.01)
