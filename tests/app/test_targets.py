"""What a virtual cluster may lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.app.targets import addresses_of
from mesh.config import ConfigurationError
from tests.config.files import load_tree
from tests.config.test_router_checks import regions


def test_a_router_is_checked_and_not_run_yet(tmp_path: Path) -> None:
    config = load_tree(tmp_path, regions())
    with pytest.raises(
        ConfigurationError, match="virtual_clusters: all: a virtual cluster whose target is a pool or a"
    ):
        addresses_of(config.virtual_clusters[0])
