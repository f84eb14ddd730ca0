"""Moves with shorter waits than with real clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.runtime.entity_router.moves import mover as mover_module


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(mover_module, "CHECK_INTERVAL", 0.005)
    monkeypatch.setattr(mover_module, "SETTLED", 0.02)
    monkeypatch.setattr(mover_module, "BACKOFF", 0.005)
    yield
