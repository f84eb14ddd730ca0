"""Short intervals, so that tests do not wait."""

from __future__ import annotations

import pytest

from mesh.runtime.relay import nodes


@pytest.fixture(autouse=True)
def fast_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requested looks at the cluster come at once."""
    monkeypatch.setattr(nodes, "LEAST_CHECK_INTERVAL", 0.01)
